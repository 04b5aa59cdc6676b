"""The metrics of a preparation pod."""

from imagenet_workloads.telemetry.preparation import PreparationRecorder
from imagenet_workloads.telemetry.server import Registry
from support.exported_metrics import values


def test_a_packer_s_progress_counts_damaged_images_too(registry: Registry) -> None:
    preparation = PreparationRecorder(registry)
    preparation.planned(8)
    assert values(registry)["imagenet_prepare_shard_progress_ratio"] == 0
    preparation.packed(5, bytes=5000)
    preparation.skipped()
    assert values(registry) == {
        "imagenet_prepare_images_total": 5,
        "imagenet_prepare_images_planned": 8,
        "imagenet_prepare_bytes_total": 5000,
        "imagenet_prepare_skipped_images_total": 1,
        "imagenet_prepare_shard_progress_ratio": 0.75,
    }


def test_a_shard_without_images_is_done(registry: Registry) -> None:
    PreparationRecorder(registry).planned(0)
    assert values(registry)["imagenet_prepare_shard_progress_ratio"] == 1


def test_an_index_expects_as_many_images_as_what_it_has_seen_promises(registry: Registry) -> None:
    preparation = PreparationRecorder(registry)
    for images, share, expected in ((100, 0.1, 1000), (100, 0.25, 800), (10, 1.0, 210)):
        preparation.listed(images, share)
        assert values(registry)["imagenet_prepare_images_planned"] == expected
    preparation.listed(5)
    assert values(registry)["imagenet_prepare_images_planned"] == 210
    assert values(registry)["imagenet_prepare_images_total"] == 215


def test_an_index_has_no_progress_before_it_knows_its_plan(registry: Registry) -> None:
    preparation = PreparationRecorder(registry)
    preparation.listed()
    preparation.listed(41)
    preparation.skipped(2)
    assert values(registry) == {
        "imagenet_prepare_images_total": 42,
        "imagenet_prepare_skipped_images_total": 2,
    }


def test_requests_to_a_remote_source_are_counted_with_their_bytes(registry: Registry) -> None:
    preparation = PreparationRecorder(registry)
    preparation.requested(1, 4096)
    preparation.requested(1, 0)
    assert values(registry)["imagenet_prepare_requests_total"] == 2
    assert values(registry)["imagenet_prepare_read_bytes_total"] == 4096

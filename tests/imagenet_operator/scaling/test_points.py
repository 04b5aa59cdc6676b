"""The jobs of a sweep: what they have in common, what differs, what is refused, which are done."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.scaling import points, variants
from imagenet_operator.scaling.points import InvalidSweep, PointStatus, Size, Sweep, point_status
from imagenet_operator.sdk import submission
from imagenet_spec.errors import Problem
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.fields import DNS_LABEL, JOB_NAME_MAXIMUM
from imagenet_spec.resource.status import Status
from imagenet_spec.validate import parse
from support import job_table
from support.sentences import assert_says

SERVERS = variants.read("parameterServer")
SINGLE = variants.read("single")
NAMES = st.from_regex(DNS_LABEL.replace("*", "{0,60}"), fullmatch=True).filter(
    lambda name: len(name) <= JOB_NAME_MAXIMUM
)
VARIANTS = st.sampled_from(
    [SERVERS, SINGLE, variants.read("parameterServer:dist_device_sync"), variants.Variant("x" * 50)]
)


def plan(
    manifest: dict[str, Any] | None = None,
    workers: tuple[int, ...] = (1, 2),
    *chosen: variants.Variant,
) -> Sweep:
    manifest = job_table.manifest() if manifest is None else manifest
    return points.sweep(
        manifest, points.sizes_of_workers(workers), chosen or (SERVERS,), submission.problems
    )


def of_networks(*names: str, workers: tuple[int, ...]) -> Sweep:
    chosen = [variants.read_network(name) for name in names]
    return points.sweep(
        job_table.manifest(),
        points.sizes_of_workers(workers),
        [SERVERS],
        submission.problems,
        models=chosen,
    )


def jobs(found: Sweep) -> list[ImageNetJob]:
    return [parse(point.manifest) for point in found.points]


def test_a_point_for_each_strategy_and_number_in_order() -> None:
    asynchronous = variants.read("parameterServer:dist_async")
    found = plan(None, (4, 1, 4, 2), SERVERS, asynchronous)
    assert [point.name for point in found.points] == [
        *(f"digits-w{number}-parameter-server" for number in (1, 2, 4)),
        *(f"digits-w{number}-dist-async" for number in (1, 2, 4)),
    ]
    assert [job.spec.training.workers.replicas for job in jobs(found)] == [1, 2, 4] * 2
    assert str(found.points[0]) == "parameterServer, 1 worker"
    assert str(found.points[-1]) == "parameterServer:dist_async, 4 workers"


def test_only_workers_strategy_and_names_differ() -> None:
    manifest = job_table.manifest(
        training={"workers": {"replicas": 8, "template": {"metadata": {"labels": {"a": "b"}}}}}
    )
    manifest["metadata"]["labels"] = {"team": "vision"}
    first, second = jobs(plan(manifest, (2, 4)))
    assert first.metadata.labels == second.metadata.labels
    assert first.metadata.labels == {"team": "vision", points.SWEEP: "digits"}
    one, other = first.spec.training.to_manifest(), second.spec.training.to_manifest()
    assert one.pop("workers") == {**other.pop("workers"), "replicas": 2}
    assert one == other
    assert first.spec.training.batch_size == 512, "strong scaling"
    assert first.spec.dataset == second.spec.dataset


def test_all_points_share_a_claim_that_is_made_for_them() -> None:
    manifest = job_table.manifest()
    assert points.shared_claim(manifest) == "digits-dataset"
    for job in jobs(plan(manifest)):
        assert job.spec.dataset.volume is not None
        assert job.spec.dataset.volume.to_manifest() == {"claimName": "digits-dataset"}


@pytest.mark.parametrize(
    "dataset",
    [
        {"volume": {"claimName": "mine"}},
        {"source": job_table.PREPARED, "volume": None},
    ],
)
def test_a_claim_that_exists_is_taken_as_it_is(dataset: dict[str, Any]) -> None:
    manifest = job_table.manifest(dataset=dataset)
    manifest["spec"]["dataset"] = {
        key: value for key, value in manifest["spec"]["dataset"].items() if value is not None
    }
    assert points.shared_claim(manifest) is None
    for point in plan(manifest).points:
        assert point.manifest["spec"]["dataset"] == manifest["spec"]["dataset"]


def test_points_are_kept_until_they_are_read() -> None:
    manifest = job_table.manifest(run_policy={"ttlSecondsAfterFinished": 0, "backoffLimit": 2})
    for job in jobs(plan(manifest)):
        assert job.spec.run_policy.ttl_seconds_after_finished is None
        assert job.spec.run_policy.backoff_limit == 2


def test_weak_scaling_keeps_the_batch_of_a_worker() -> None:
    manifest = job_table.manifest(training={"workers": {"replicas": 4}})
    found = points.sweep(
        manifest, points.sizes_of_workers((1, 2, 8)), [SERVERS], submission.problems, is_weak=True
    )
    assert [job.spec.training.batch_size for job in jobs(found)] == [128, 256, 1024]
    assert found.points[0].name == "digits-w1-parameter-server-weak"


def test_a_point_of_an_elastic_job_has_one_number_of_workers() -> None:
    workers = {"replicas": 4, "minReplicas": 2, "elastic": {}}
    manifest = job_table.manifest(training={"workers": workers})
    found = plan(manifest)
    assert [job.spec.training.workers.min_replicas for job in jobs(found)] == [None, None]
    assert [job.spec.training.workers.replicas for job in jobs(found)] == [1, 2]


def test_a_point_for_each_network() -> None:
    found = of_networks("resnet-18", "alexnet", workers=(1, 2))
    assert [str(point) for point in found.points] == [
        "resnet-18, parameterServer, 1 worker",
        "resnet-18, parameterServer, 2 workers",
        "alexnet, parameterServer, 1 worker",
        "alexnet, parameterServer, 2 workers",
    ]
    models = [job.spec.training.model for job in jobs(found)]
    assert [(model.network, model.num_layers) for model in models] == [
        *[("resnet", 18)] * 2,
        *[("alexnet", None)] * 2,
    ]
    assert found.points[1].name == "digits-w2-parameter-server-resnet-18"


def test_a_network_that_cannot_be_trained_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidSweep, match=r"resnet-19, parameterServer, 1 worker: spec\.training"):
        of_networks("resnet-19", workers=(1,))


@pytest.mark.parametrize("text", ["resnett", "resnet-x", "-50", ""])
def test_an_unknown_network_is_named(text: str) -> None:
    with pytest.raises(variants.UnknownNetwork, match="is no network; write a name"):
        variants.read_network(text)


def test_a_strategy_with_one_worker_has_one_point() -> None:
    found = plan(None, (1, 2, 4), SINGLE, SERVERS)
    assert [(point.strategy, point.workers) for point in found.points] == [
        ("single", 1),
        *(("parameterServer", number) for number in (1, 2, 4)),
    ]
    (message,) = found.left_out
    assert_says(message, "single: 2 and 4 workers", "left out", "takes one")


def test_a_strategy_with_one_worker_and_no_such_point_is_refused() -> None:
    with pytest.raises(InvalidSweep, match=r"single, 2 workers: spec\.training\.workers"):
        plan(None, (2, 4), SINGLE, SERVERS)


@pytest.mark.parametrize(
    ("chosen", "wrong"),
    [
        ((SERVERS,), ["parameterServer"]),
        ((SINGLE,), ["single"]),
        ((variants.read("mirrored"), SERVERS), ["mirrored", "parameterServer"]),
    ],
)
def test_more_workers_than_a_job_may_have_are_refused_whatever_the_strategy(
    chosen: tuple[variants.Variant, ...], wrong: list[str]
) -> None:
    """To leave them out would say that the strategy takes one."""
    with pytest.raises(InvalidSweep) as caught:
        plan(job_table.manifest(training={"batchSize": 20_000}), (1, 2, 20_000), *chosen)
    for line, name in zip(str(caught.value).splitlines()[1:], wrong, strict=True):
        assert_says(line, f"  {name}, 20000 workers: spec.training.workers.replicas: ")
        assert_says(line, "at most 10000, not 20000")


def test_only_what_the_strategy_says_itself_leaves_a_point_out() -> None:
    """Others may object to the workers as well, as a cluster of so many nodes might."""

    def judge(manifest: dict[str, Any]) -> list[Problem]:
        many = manifest["spec"]["training"]["workers"]["replicas"] > 1
        return [Problem("spec.training.workers", "are more than there are nodes")] if many else []

    with pytest.raises(InvalidSweep, match=r"single, 2 workers: .* more than there are nodes"):
        points.sweep(job_table.manifest(), points.sizes_of_workers((1, 2)), (SINGLE,), judge)


def test_every_batch_that_does_not_divide_is_listed() -> None:
    with pytest.raises(InvalidSweep) as caught:
        plan(None, (1, 3, 5), SERVERS)
    first, *wrong = str(caught.value).splitlines()
    assert "nothing was started" in first
    assert "the global batch of 512 stays the same" in first
    for line, workers, batches in zip(wrong, (3, 5), ("510 or 513", "510 or 515"), strict=True):
        assert_says(line, f"  parameterServer, {workers} workers: spec.training.batchSize: ")
        assert_says(line, "512 is not divisible", f"by {workers} devices", f"write {batches}")


@pytest.mark.parametrize(
    ("manifest", "chosen", "frameworks"),
    [
        (
            job_table.manifest(training={"image": "own:1"}),
            "horovod:TensorFlow",
            ("MXNet", "TensorFlow"),
        ),
        (
            job_table.tensorflow({"multiWorkerMirrored": {}}, image="own:1"),
            "parameterServer",
            ("TensorFlow", "MXNet"),
        ),
    ],
)
def test_an_image_of_one_framework_is_not_made_to_train_in_another(
    manifest: dict[str, Any], chosen: str, frameworks: tuple[str, str]
) -> None:
    of_image, wanted = frameworks
    with pytest.raises(InvalidSweep) as caught:
        plan(manifest, (1, 2), variants.own(manifest), variants.read(chosen))
    first, second = str(caught.value).splitlines()[1:]
    for line, number in ((first, "1 worker"), (second, "2 workers")):
        assert line.startswith(f"  {chosen}, {number}: spec.training.image: ")
        assert_says(line, f"for {of_image}", f"cannot train with {wanted}")
        assert_says(line, f"leave {chosen} out of --strategies", "remove the image")


def test_an_image_stays_with_every_strategy_of_its_framework() -> None:
    manifest = job_table.manifest(training={"image": "own:1"})
    found = plan(manifest, (1, 2), SERVERS, variants.read("horovod"))
    assert {job.spec.training.image for job in jobs(found)} == {"own:1"}


def test_a_program_of_ones_own_trains_as_it_likes() -> None:
    """The framework of the manifest decides strategies and format."""
    manifest = job_table.manifest(training=job_table.OWN_PROGRAM)
    found = plan(manifest, (1, 2), SERVERS, variants.read("multiWorkerMirrored"))
    assert len(found.points) == 4


@given(NAMES, VARIANTS, st.integers(1, 10_000))
def test_names_are_good_and_tell_points_apart(
    base: str, variant: variants.Variant, workers: int
) -> None:
    name = points.point_name(base, variant, Size(workers))
    assert len(name) <= JOB_NAME_MAXIMUM
    assert re.fullmatch(DNS_LABEL, name)
    assert name != points.point_name(base, variant, Size(workers + 1))
    assert name != points.point_name(base, variant, Size(workers, 1))
    assert name != points.point_name(base, variant, Size(workers, 0))
    assert name != points.point_name(base, variants.Variant("other"), Size(workers))
    assert name == points.point_name(base, variant, Size(workers))


def test_names_that_begin_alike_stay_apart_when_they_are_cut() -> None:
    long = "a" * (JOB_NAME_MAXIMUM - 1)
    names = {points.point_name(f"{long}{end}", SERVERS, Size(1)) for end in "bc"}
    assert len(names) == 2


NOW = datetime(2026, 1, 1, tzinfo=UTC).isoformat()


def job(conditions: dict[str, str] | None = None, **changes: Any) -> ImageNetJob:
    stated = [
        {"type": kind, "status": status, "reason": "R", "lastTransitionTime": NOW}
        for kind, status in (conditions or {}).items()
    ]
    status = Status.model_validate({"conditions": stated})
    return parse(job_table.manifest(**changes)).model_copy(update={"status": status})


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, PointStatus.NEW),
        (job(), PointStatus.UNFINISHED),
        (job({"Created": "True", "Running": "True"}), PointStatus.UNFINISHED),
        (job({"Running": "False", "Restarting": "True"}), PointStatus.UNFINISHED),
        (job({"Succeeded": "False"}), PointStatus.UNFINISHED),
        (job({"Running": "False", "Succeeded": "True"}), PointStatus.SUCCEEDED),
        (job({"Running": "False", "Failed": "True"}), PointStatus.FAILED),
        (job({"Succeeded": "True"}, training={"epochs": 1}), PointStatus.OTHER),
        (job({"Succeeded": "True"}, dataset={"volume": {"size": "1Gi"}}), PointStatus.OTHER),
        (job({"Failed": "True"}, training={"batchSize": 256}), PointStatus.OTHER),
        (job({"Succeeded": "True"}, run_policy={"backoffLimit": 1}), PointStatus.SUCCEEDED),
    ],
)
def test_what_is_stored_decides(stored: ImageNetJob | None, expected: PointStatus) -> None:
    assert point_status(job(), stored) is expected


def test_defaults_that_a_cluster_has_written_out_are_no_change() -> None:
    written_out = parse(job().to_manifest() | {"status": {}})
    assert point_status(job(), written_out) is PointStatus.UNFINISHED

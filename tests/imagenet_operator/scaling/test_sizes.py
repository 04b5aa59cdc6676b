"""Sweeps over GPUs, on CPUs in their place, and the image sizes of their networks."""

from typing import Any

import pytest

from imagenet_operator.scaling import points, variants
from imagenet_operator.scaling.points import InvalidSweep, Size, Sweep
from imagenet_operator.sdk import submission
from imagenet_spec.validate import parse
from support import job_table
from support.sentences import assert_says

TUTORIAL = ("alexnet", "inception-v3", "resnet-152")


def plan(
    manifest: dict[str, Any],
    wanted: list[tuple[Size, ...]],
    *models: str,
    strategy: str | None = None,
    is_weak: bool = True,
) -> Sweep:
    variant = variants.own(manifest) if strategy is None else variants.read(strategy)
    read = [variants.read_network(name) for name in models]
    return points.sweep(
        manifest, wanted, [variant], submission.problems, models=read, is_weak=is_weak
    )


def placed(found: Sweep) -> list[tuple[int, int, int]]:
    """The workers, GPUs of each and batch of each point."""
    specs = [parse(point.manifest).spec.training for point in found.points]
    return [(spec.workers.replicas, spec.workers.gpus, spec.batch_size) for spec in specs]


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        # 512 images over 2 workers of 4 GPUs are 64 a GPU.
        ({"replicas": 2, "gpus": 4}, [(1, 1, 64), (1, 2, 128), (1, 4, 256), (2, 4, 512)]),
        ({"replicas": 2, "gpus": 1}, [(1, 1, 256), (2, 1, 512), (4, 1, 1024), (8, 1, 2048)]),
        # Without GPUs in the manifest, one worker has all.
        ({"replicas": 2}, [(1, 1, 256), (1, 2, 512), (1, 4, 1024), (1, 8, 2048)]),
    ],
)
def test_gpus_are_those_of_the_manifests_workers_or_of_one(
    workers: dict[str, int], expected: list[tuple[int, int, int]]
) -> None:
    manifest = job_table.manifest(training={"workers": workers})
    found = plan(manifest, points.sizes_of_gpus(manifest, (8, 4, 2, 1)))
    assert placed(found) == expected
    assert [point.gpus for point in found.points] == [1, 2, 4, 8]
    assert [point.name for point in found.points] == [
        f"digits-g{number}-parameter-server-weak" for number in (1, 2, 4, 8)
    ]


def test_a_strategy_of_one_worker_has_all_gpus_in_it() -> None:
    manifest = job_table.manifest(training={"workers": {"replicas": 1, "gpus": 1}})
    found = plan(manifest, points.sizes_of_gpus(manifest, (1, 2, 4)), strategy="single")
    assert placed(found) == [(1, 1, 512), (1, 2, 1024), (1, 4, 2048)]
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("framework", "strategy", "field"),
    [
        ("MXNet", "horovod", "slotsPerWorker"),
        ("PyTorch", "distributedDataParallel", "processesPerWorker"),
    ],
)
def test_one_process_for_each_gpu_stays_so(framework: str, strategy: str, field: str) -> None:
    fields = {"framework": framework, "strategy": {strategy: {field: 4}}}
    manifest = job_table.manifest(training={**fields, "workers": {"replicas": 2, "gpus": 4}})
    found = plan(manifest, points.sizes_of_gpus(manifest, (1, 2, 8)))
    assert placed(found) == [(1, 1, 64), (1, 2, 128), (2, 4, 512)]
    on_cpus = plan(manifest, points.sizes_of_workers((1, 2), on_cpus=True))
    assert placed(on_cpus) == [(1, 0, 64), (2, 0, 128)]


def test_strong_scaling_keeps_the_batch_of_all_gpus() -> None:
    manifest = job_table.manifest(training={"workers": {"replicas": 2, "gpus": 1}})
    found = plan(manifest, points.sizes_of_gpus(manifest, (1, 2)), is_weak=False)
    assert [batch for _, _, batch in placed(found)] == [512, 512]


def test_on_cpus_a_worker_takes_the_batch_of_a_gpu() -> None:
    manifest = job_table.manifest(training={"workers": {"replicas": 2, "gpus": 4}})
    found = plan(manifest, points.sizes_of_workers((1, 2), on_cpus=True))
    assert placed(found) == [(1, 0, 64), (2, 0, 128)]
    assert [point.gpus for point in found.points] == [0, 0]
    assert [str(point) for point in found.points] == [
        "parameterServer, 1 worker on CPUs",
        "parameterServer, 2 workers on CPUs",
    ]
    assert found.points[1].name == "digits-w2-cpu-parameter-server-weak"


def test_the_message_says_whose_batch_stays() -> None:
    manifest = job_table.manifest(training={"workers": {"replicas": 2, "gpus": 4}})
    with pytest.raises(InvalidSweep, match="a GPU's batch of 64 stays the same") as caught:
        plan(manifest, points.sizes_of_gpus(manifest, (4, 65)))
    assert "parameterServer, 65 GPUs in 1 worker: spec.training.workers.gpus" in str(caught.value)


def test_networks_take_images_of_their_own_size() -> None:
    manifest = job_table.manifest(training={"workers": {"replicas": 2, "gpus": 1}})
    found = plan(manifest, points.sizes_of_gpus(manifest, (1, 2, 4, 8)), *TUTORIAL)
    shapes = {
        point.network: parse(point.manifest).spec.training.model.image_shape
        for point in found.points
    }
    assert shapes == {
        "alexnet": (3, 224, 224),
        "inception-v3": (3, 299, 299),
        "resnet-152": (3, 224, 224),
    }
    assert len(found.points) == 12


def test_the_size_of_the_manifests_own_network_does_not_stay() -> None:
    model = {"network": "inception-v3", "imageShape": [3, 299, 299]}
    manifest = job_table.manifest(training={"model": model})
    (point,) = plan(manifest, points.sizes_of_workers((1,)), "alexnet").points
    assert point.manifest["spec"]["training"]["model"]["imageShape"] == [3, 224, 224]


def test_another_size_of_images_stays() -> None:
    model = {"network": "resnet", "numLayers": 50, "imageShape": [3, 128, 128]}
    manifest = job_table.manifest(training={"model": model})
    (point,) = plan(manifest, points.sizes_of_workers((1,)), "alexnet").points
    assert point.manifest["spec"]["training"]["model"]["imageShape"] == [3, 128, 128]


@pytest.mark.parametrize(
    ("dataset", "field"),
    [
        ({"preprocessing": {"resize": 256}}, "preprocessing.resize"),
        ({"source": {"synthetic": {}}}, "source.synthetic.imageShape"),
    ],
)
def test_records_that_are_too_small_for_a_network_are_refused(
    dataset: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidSweep) as caught:
        plan(job_table.manifest(dataset=dataset), points.sizes_of_workers((1,)), *TUTORIAL)
    (line,) = str(caught.value).splitlines()[1:]
    assert line.startswith(f"  inception-v3, parameterServer, 1 worker: spec.dataset.{field}: ")
    assert_says(line, "256 pixels", "too small for inception-v3", "write at least 299")
    assert_says(line, "leave inception-v3 out of --networks")


def test_records_of_299_pixels_are_large_enough() -> None:
    manifest = job_table.manifest(dataset={"preprocessing": {"resize": 299}})
    assert len(plan(manifest, points.sizes_of_workers((1,)), *TUTORIAL).points) == 3

"""What reading and saving take in a worker, in words, and as the request of its pod."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_spec.resource import worker_memory
from support.job_table import OWN_PROGRAM, manifest, members, read
from support.sentences import assert_says

Manifest = dict[str, Any]
NETWORK = {"model": {"network": "lenet", "imageShape": [3, 28, 28]}, "batchSize": 48}


def job(resources: Manifest | None = None, **training: Any) -> Any:
    containers = [{"name": "main", "resources": resources or {}}]
    workers = {"replicas": 2, "template": {"spec": {"containers": containers}}}
    return read(manifest(training={"workers": workers, **NETWORK, **training}))


def requested(found: Any) -> str | None:
    """Return the request of memory of a worker's pod."""
    resources = members(found)[-1]["spec"]["containers"][0].get("resources") or {}
    memory: str | None = (resources.get("requests") or {}).get("memory")
    return memory


def test_a_pod_without_memory_requests_that_of_its_reader() -> None:
    found = job()
    memory = worker_memory.of_worker(found)
    assert memory is not None
    assert requested(found) == worker_memory.in_mebibytes(memory.bytes)
    limits = members(found)[-1]["spec"]["containers"][0]["resources"].get("limits")
    assert limits is None


@pytest.mark.parametrize("kind", ["limits", "requests"])
@pytest.mark.parametrize("amount", ["1Mi", "64Gi", "0"])
def test_memory_of_the_template_stays(kind: str, amount: str) -> None:
    container = members(job({kind: {"memory": amount}}))[-1]["spec"]["containers"][0]
    assert container["resources"] == {kind: {"memory": amount}}


def test_memory_of_the_pod_stays() -> None:
    template = {"spec": {"resources": {"limits": {"memory": "1Gi"}}}}
    found = read(manifest(training={"workers": {"replicas": 2, "template": template}}))
    assert requested(found) is None


@pytest.mark.parametrize(
    "training",
    [
        OWN_PROGRAM,
        {"reader": "ImageRecordIter"},
        {"augmentation": {"maxRandomH": 9}},
        {"extraArgs": ["--benchmark", "1"]},
    ],
)
def test_other_readers_have_no_figure(training: Manifest) -> None:
    found = read(manifest(training=training))
    assert worker_memory.of_worker(found) is None
    assert requested(found) is None


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        ({"limits": {"memory": "1Mi"}}, "limits"),
        ({"requests": {"memory": "1Mi"}}, "requests"),
        ({"requests": {"memory": "1Mi"}, "limits": {"memory": "1Gi"}}, "requests"),
    ],
)
def test_less_memory_is_a_warning_with_the_field(resources: Manifest, field: str) -> None:
    (problem,) = worker_memory.warnings(job(resources))
    where = f"resources.{field}.memory in spec.training.workers.template"
    needs = ("3 MB", "2 MB batches", "2 MB records", "45 MB")
    assert_says(str(problem), where, *needs, "3Mi", "batchSize")


@pytest.mark.parametrize("resources", [{}, {"limits": {"memory": "1Gi"}}, {"limits": {"cpu": "1"}}])
def test_enough_memory_is_no_warning(resources: Manifest) -> None:
    assert worker_memory.warnings(job(resources)) == []


def test_fewer_workers_take_more() -> None:
    elastic = {"replicas": 8, "minReplicas": 4}
    found = read(manifest(training={"workers": elastic, **NETWORK}))
    most, usual = worker_memory.of_fewest_workers(found), worker_memory.of_worker(found)
    assert most == worker_memory.of_worker(found, 4)
    assert most is not None
    assert usual is not None
    assert most.bytes > usual.bytes


@pytest.mark.parametrize(
    ("training", "size"),
    [
        ({"model": {"network": "resnet", "numLayers": 50}}, 2 * 26 * 4 * 2),
        ({"model": {"network": "resnet", "numLayers": 50}, "optimizer": {"momentum": 0}}, 208),
        ({"model": {"network": "alexnet"}, "optimizer": {"name": "adam"}}, 2 * 62 * 4 * 3),
        ({"model": {"network": "resnet", "numLayers": 20, "imageShape": [3, 32, 32]}}, 32),
        # The size of its weights depends on that of images, which are small.
        (NETWORK, 0),
    ],
)
def test_two_copies_of_weights_and_optimizer(training: Manifest, size: int) -> None:
    """In millions of bytes."""
    memory = worker_memory.of_worker(job(**training))
    assert memory is not None
    assert memory.copies == size * 10**6


def test_of_a_network_of_another_library_the_copies_are_named() -> None:
    timm: Manifest = {"framework": "PyTorch", "strategy": {"distributedDataParallel": {}}}
    memory = worker_memory.of_worker(job(**timm, model={"network": "timm/vit_tiny"}))
    assert memory is not None
    facts = ("45 MB", "each decoder", "two copies of weights and optimizer", "checkpoints")
    assert_says(str(memory), *facts)


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (
            (3 * 10**9, 10**8, None, 0),
            "3.10 GB (3.00 GB batches, 0.10 GB records), and 45 MB for",
        ),
        ((10**6, 2 * 10**6, 0, 0), "3 MB (1 MB batches, 2 MB records)"),
        ((10**6, 2 * 10**6, 1, 0), "48 MB (1 MB batches, 2 MB records, 45 MB decoder)"),
        (
            (10**6, 2 * 10**6, 0, 10**9),
            "1.00 GB (1 MB batches, 2 MB records, 1.00 GB copies for checkpoints)",
        ),
        ((10**6, 10**6, 2, 0), "92 MB (1 MB batches, 1 MB records, 90 MB decoders (2 of 45 MB))"),
    ],
)
def test_words(memory: tuple[int, int, int | None, int], words: str) -> None:
    assert str(worker_memory.WorkerMemory(*memory)).startswith(f"about {words}")

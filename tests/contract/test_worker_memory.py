"""The memory that `validate` says and a pod requests is what the workloads' reader takes."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.names import IMAGENET_CPUS
from imagenet_spec.program.train import PROCESSES, THREADS
from imagenet_spec.resource import ImageNetJob, worker_memory
from imagenet_workloads.commands import train
from imagenet_workloads.data import batches, order, ordered_data
from imagenet_workloads.data.batches import ImageBatch
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.layouts import Normalized
from imagenet_workloads.data.windows import LaneReader, Wanted, Windows
from imagenet_workloads.dataset import RECORD_IO
from imagenet_workloads.frameworks.mxnet.data import choose
from imagenet_workloads.rendezvous.ddp import Process
from support.image_splits import open_images
from support.job_table import manifest, members, read
from support.tiny_dataset import write_dataset

MEMORY = "/memfd:imagenet-train"


def job(
    *, cpu: str | None = None, train: int = 0, validation: int = 0, **training: Any
) -> ImageNetJob:
    """Return the job of one worker, with the counts of its dataset."""
    resources = {} if cpu is None else {"requests": {"cpu": cpu}}
    template = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    fields = {
        "strategy": {"single": {}},
        "batchSize": 48,
        "model": {"network": "lenet", "imageShape": [3, 28, 28]},
        "workers": {"replicas": 1, "template": template},
        **training,
    }
    built = read(manifest(dataset={"preprocessing": {"resize": 480}}, training=fields))
    assert built.status.dataset is not None
    counted = built.status.dataset.model_copy(
        update={
            "images": built.status.dataset.images.model_copy(
                update={"train": train, "validation": validation}
            )
        }
    )
    return built.model_copy(update={"status": built.status.model_copy(update={"dataset": counted})})


def figure(found: ImageNetJob) -> worker_memory.WorkerMemory:
    memory = worker_memory.of_worker(found)
    assert memory is not None
    return memory


def shared_memory() -> dict[int, tuple[int, int]]:
    """Return the bytes of each memory of a reader in this process, and those that it takes."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        if link.is_symlink() and str(link.readlink()).startswith(MEMORY):
            state = link.stat()
            found[state.st_ino] = (state.st_size, 512 * state.st_blocks)
    return found


@pytest.mark.parametrize("validation", [0, 100])
def test_a_reader_has_the_slots_and_at_most_the_windows_of_the_figure(
    validation: int, tmp_path: Path
) -> None:
    write_dataset(tmp_path / "dataset", 1500, validation)
    planned = job(train=1500, validation=validation)
    arguments = members(planned)[-1]["spec"]["containers"][0]["args"]
    line = [
        text.replace("$(IMAGENET_DATASET)", str(tmp_path / "dataset")).replace(
            "$(IMAGENET_RESULTS)", str(tmp_path)
        )
        for text in arguments
    ]
    before = shared_memory()
    data = choose(train.parse(line), 0, 1, 1, tmp_path)
    assert data.close is not None
    try:
        for batch in data.training.epoch(0, 0):
            batch.data.wait_to_read()
        memories = [size for inode, size in shared_memory().items() if inode not in before]
    finally:
        data.close()

    memory = figure(planned)
    # The memory of the records is the greatest: most of it is never used.
    windows = max(memories)
    assert sum(size for size, _ in memories) - windows[0] == memory.slots
    assert 0 < windows[1] <= memory.windows


def test_slots_have_the_largest_size_of_training_and_the_size_of_validation(tmp_path: Path) -> None:
    write_dataset(tmp_path / "dataset", 200, 40)
    sizes = [{"epoch": 0, "size": 24}, {"epoch": 1, "size": 32}, {"epoch": 2, "size": 20}]
    model = {"network": "resnet", "numLayers": 20, "imageShape": [3, 28, 28]}
    planned = job(
        train=200, validation=40, framework="PyTorch",
        model={**model, "imageSizes": sizes, "validationSize": 30},
    )  # fmt: skip
    arguments = members(planned)[-1]["spec"]["containers"][0]["args"]
    line = [
        text.replace("$(IMAGENET_DATASET)", str(tmp_path / "dataset")).replace(
            "$(IMAGENET_RESULTS)", str(tmp_path)
        )
        for text in arguments
    ]

    def layout(inputs: Inputs) -> Normalized:
        return Normalized(inputs.mean, inputs.std, channels_first=False)

    def convert(batch: ImageBatch) -> tuple[Any, Any]:
        return batch.images, batch.labels

    before = shared_memory()
    with closing(ordered_data.open_ordered(train.parse(line), 0, 1, 1, layout, convert)):
        memories = [size for inode, size in shared_memory().items() if inode not in before]
    assert sum(size for size, _ in memories) - max(memories)[0] == figure(planned).slots


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_windows_take_what_the_figure_estimates(workers: int, tmp_path: Path) -> None:
    """Records as of ImageNet at 480 pixels, when an epoch begins."""
    count = 42 * 32
    records = open_images(tmp_path, RECORD_IO, [bytes(96 * 2**10)] * count)
    lanes = order.Order(records.count, seed=0)
    memory = Windows(1 << 30)
    with closing(memory):
        reader = LaneReader(records, lanes, 0, 0, workers, memory, Wanted())
        pending = reader.begin(order.worker_positions(0, 42 * workers, 0, workers))
        memory.close()
        taken = 512 * os.fstat(memory.descriptor).st_blocks

    assert len(pending) == 42
    planned = job(
        train=count, batchSize=40 * workers, strategy=DDP, framework="PyTorch",
        workers={"replicas": workers},
    )  # fmt: skip
    assert taken == pytest.approx(figure(planned).windows, rel=0.1)


DDP: dict[str, Any] = {"distributedDataParallel": {}}


@pytest.mark.parametrize(
    ("cpu", "gpus", "threads", "decoding"),
    [
        ("2", 0, None, None),
        ("3", 0, None, None),
        ("2500m", 0, None, None),
        ("2", 0, None, PROCESSES),
        ("500m", 0, None, PROCESSES),
        ("16", 0, None, THREADS),
        ("16", 0, None, None),
        ("16", 8, None, None),
        ("9", 8, None, None),
        ("96", 8, None, None),
        ("16", 4, 2, None),
        ("4", 0, 64, None),
    ],
)
def test_decoders_are_as_many_as_the_figure_counts(
    cpu: str,
    gpus: int,
    threads: int | None,
    decoding: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = {} if threads is None else {"dataThreads": threads}
    extra = [] if decoding is None else ["--decoding", decoding]
    planned = job(cpu=cpu, framework="PyTorch", strategy=DDP, extraArgs=extra, **more)
    training = planned.spec.training
    workers = training.workers.model_copy(update={"gpus": gpus})
    training = training.model_copy(update={"workers": workers})
    spec = planned.spec.model_copy(update={"training": training})
    planned = planned.model_copy(update={"spec": spec})

    environment = members(planned)[-1]["spec"]["containers"][0]["env"]
    (cores,) = [item["value"] for item in environment if item["name"] == IMAGENET_CPUS]
    monkeypatch.setenv(IMAGENET_CPUS, cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(128))
    processes = max(gpus, 1)
    local = {Process.variables.local_size: str(processes)}
    by = decoding or batches.faster()
    count = processes * ordered_data.decoding_cores(threads, local) if by == PROCESSES else 0
    assert figure(planned).decoders == count


def test_a_gpu_that_normalizes_gets_bytes() -> None:
    assert [name for name, one in FRAMEWORKS.items() if one.normalizes_on_gpu] == ["PyTorch"]
    on_cpu = job(framework="PyTorch")
    workers = on_cpu.spec.training.workers.model_copy(update={"gpus": 1})
    training = on_cpu.spec.training.model_copy(update={"workers": workers})
    spec = on_cpu.spec.model_copy(update={"training": training})
    on_gpu = on_cpu.model_copy(update={"spec": spec})
    # 48 images of 28 x 28 x 3 and their numbers fill 28 and 1 pages, or 111 and 1.
    assert figure(on_gpu).slots == 7 * 29 * 4096
    assert figure(on_cpu).slots == 7 * 112 * 4096

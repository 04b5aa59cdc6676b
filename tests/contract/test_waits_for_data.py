"""What a training waits for is measured by its reader and named by the operator; the cure helps."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import astuple
from pathlib import Path

import pytest

from imagenet_operator.reconcile.policies.data_wait import Cause, cause
from imagenet_operator.reconcile.windows import Steps
from imagenet_spec.program.train import PROCESSES, AugmentationOptions
from imagenet_workloads.clients.folders import ServedFolder
from imagenet_workloads.clients.http import HttpClient
from imagenet_workloads.cores import throttled_seconds
from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import Decoding, OrderedTraining, WorkerShare
from imagenet_workloads.data.order import Order
from imagenet_workloads.dataset import RECORD_IO, read_dataset
from imagenet_workloads.records.remote import open_remote_split
from imagenet_workloads.records.split import Records
from support import control_groups
from support.control_groups import limited
from support.file_server import FileServer, Handler
from support.image_splits import open_images
from support.pictures import jpeg
from support.processes import processes_with
from support.served_datasets import published_files
from support.throttled import throttled
from support.tiny_dataset import write_dataset


def epochs_of(
    records: Records,
    begin: Callable[[], None] = lambda: None,
    decoders: int = 1,
    stopped: Callable[[], float | None] = lambda: None,
) -> Iterator[Steps]:
    """Yield what each epoch waited for, with a network that takes no time.

    Args:
        records: of the epochs.
        begin: called once the decoders have started.
        decoders: how many.
        stopped: for how many seconds a CPU limit has stopped threads; None without one.
    """
    recipe = Recipe((3, 24, 24), AugmentationOptions(random_crop=True))
    decoding = Decoding(decoders, PROCESSES)
    training = OrderedTraining(records, recipe, WorkerShare(0, 1, 16), decoding)

    def totals() -> tuple[float, ...]:
        times = decoding.times()
        assert times is not None
        return (*astuple(times), stopped() or 0.0)

    with closing(decoding), closing(training):
        next(training.epoch(0))
        begin()
        before = totals()
        for epoch in range(1, 5):
            started = time.monotonic()
            for _ in training.epoch(epoch):
                pass
            after = totals()
            seconds, batches = time.monotonic() - started, training.batches_per_epoch
            yield Steps(
                *(batches, batches, training.images, seconds, seconds),
                *(now - then for now, then in zip(after, before, strict=True)),
            )
            before = after


def decoder_programs() -> list[int]:
    return processes_with(f"decoder_program\0{os.getpid()}\0")


def late(handler: Handler) -> None:
    """Answer late."""
    time.sleep(1.5)
    handler.serve()


def test_a_slow_server_is_named_and_a_cache_helps(tmp_path: Path) -> None:
    write_dataset(tmp_path / "data", 200, 0)
    sealed = read_dataset(tmp_path / "data")
    files = {f"/digits/{name}": one for name, one in published_files(tmp_path / "data").items()}
    with FileServer(files).running() as server:
        client = HttpClient()
        records = open_remote_split(
            sealed.train, sealed.format, ServedFolder(f"{server.url}/digits/", client)
        )
        server.faults = deque([late] * 10_000)
        slow = next(epochs_of(records))
        assert cause(slow) is Cause.READS
        records.keep(tmp_path / "cache", records.blocks(Order(200, 0).lanes_of(0, 1)))
        # The first epoch fills the cache.
        cached = next(epochs_of(records))
        assert cached.read_waited < slow.read_waited / 4
        records.close()
        client.close()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Records:
    folder = tmp_path_factory.mktemp("photographs")
    return open_images(folder, RECORD_IO, [jpeg(number, 1200, 1200) for number in range(64)])


def test_a_slow_disk_is_named_and_a_faster_one_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = open_images(tmp_path, RECORD_IO, [jpeg(number, 64, 64) for number in range(200)])
    with ExitStack() as stack:

        def slow_down() -> None:
            number = tmp_path.stat().st_dev
            # An epoch in 2 s.
            limit = control_groups.reads(
                f"{os.major(number)}:{os.minor(number)}",
                sum(file.stat().st_size for file in tmp_path.iterdir()) // 2,
            )
            if stack.enter_context(limited([os.getpid()], limit)) is None:
                slow_reads(stack, monkeypatch)
            drop_from_page_cache(tmp_path)

        epochs = epochs_of(records, slow_down)
        slow = next(epochs)
        assert cause(slow) is Cause.READS
        stack.close()
        next(epochs)
        assert next(epochs).read_waited < slow.read_waited / 4


def slow_reads(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each read take 0.1 s, where the machine gives no group that a disk is limited for."""
    read = os.preadv

    def slow(*arguments: object) -> int:
        time.sleep(0.1)
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "preadv", slow)
    stack.callback(monkeypatch.undo)


def drop_from_page_cache(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            # Only pages that are on the disk are removed.
            os.fsync(file)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_half_a_core_is_named_and_more_cores_help(photographs: Records, tmp_path: Path) -> None:
    with ExitStack() as stack:
        groups = list[Path]()

        def slow_down() -> None:
            decoders = decoder_programs()
            group = stack.enter_context(limited(decoders, control_groups.cores(0.5)))
            if group is None:
                for decoder in decoders:
                    # Without a group, nothing gives them cores before all others later.
                    stack.enter_context(throttled(decoder, 0.2 / len(decoders)))
                return
            groups.append(group)
            # As a pod sees its own group.
            (tmp_path / "cpu").symlink_to(group)
            (tmp_path / "cpu.stat").symlink_to(group / "cpu.stat")

        epochs = epochs_of(photographs, slow_down, 4, lambda: throttled_seconds(tmp_path))
        slow = next(epochs)
        assert cause(slow) is Cause.CORES
        assert slow.throttled > 0 or not groups
        if groups:
            control_groups.change(groups[0], control_groups.cores(4))
        else:
            stack.close()
        next(epochs)
        fast = next(epochs)
        assert fast.throttled < slow.throttled or not groups
        assert fast.decoded_cpu / fast.decoded > slow.decoded_cpu / slow.decoded
        assert fast.waited < slow.waited


SLOW = """
import time
from imagenet_workloads.data.decoder import Decoder
run = Decoder.run
def slow(decoder, task):
    time.sleep(0.03 * len(task.records))
    run(decoder, task)
Decoder.run = slow
time.process_time = time.monotonic
"""
"""Lets a decoder be slow without a core; by its clock it had one, whatever else runs here."""


def test_one_decoder_is_named_and_another_one_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    records = open_images(tmp_path / "split", RECORD_IO, [jpeg(one, 32, 32) for one in range(64)])
    waited = []
    for decoders in (1, 2):
        steps = next(epochs_of(records, decoders=decoders))
        assert cause(steps) is Cause.DECODERS
        waited.append(steps.decode_waited)
    assert waited[1] < waited[0]

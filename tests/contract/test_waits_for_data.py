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
from imagenet_operator.reconcile.step_window import Steps
from imagenet_workloads.clients.folders import ServedFolder
from imagenet_workloads.clients.http import HttpClient
from imagenet_workloads.dataset import RECORD_IO, read_dataset
from imagenet_workloads.reading.augmentation import Recipe
from imagenet_workloads.reading.batches import Decoding, OrderedTraining, WorkerShare
from imagenet_workloads.reading.records import Records
from imagenet_workloads.reading.remote_records import open_remote_split
from imagenet_workloads.train.options.groups import PROCESSES, AugmentationOptions
from imagenet_workloads.train.order import Order
from support.file_server import FileServer, Handler
from support.image_splits import open_images
from support.pictures import jpeg
from support.processes import processes_with
from support.served_datasets import published_files
from support.throttled import throttled
from support.tiny_dataset import write_dataset


def epochs_of(records: Records, begin: Callable[[], None] = lambda: None) -> Iterator[Steps]:
    """Yield what each epoch waited for, with one decoder and a network that takes no time.

    Args:
        records: of the epochs.
        begin: called once the decoder has started.
    """
    recipe = Recipe((3, 24, 24), AugmentationOptions(random_crop=True))
    decoding = Decoding(1, PROCESSES)
    training = OrderedTraining(records, recipe, WorkerShare(0, 1, 16), decoding)
    with closing(decoding), closing(training):
        next(training.epoch(0))
        begin()
        before = decoding.times()
        for epoch in range(1, 5):
            started = time.monotonic()
            for _ in training.epoch(epoch):
                pass
            after = decoding.times()
            assert before is not None
            assert after is not None
            pairs = zip(astuple(after), astuple(before), strict=True)
            seconds, batches = time.monotonic() - started, training.batches_per_epoch
            yield Steps(
                *(batches, batches, training.images, seconds, seconds),
                *(now - then for now, then in pairs),
            )
            before = after


def late(handler: Handler) -> None:
    """Answer late."""
    time.sleep(0.1)
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
    return open_images(folder, RECORD_IO, [jpeg(number, 400, 400) for number in range(64)])


def test_a_decoder_that_gets_no_core_is_named_and_a_core_helps(photographs: Records) -> None:
    with ExitStack() as stack:

        def slow_down() -> None:
            (decoder,) = processes_with(f"decoder_program\0{os.getpid()}\0")
            stack.enter_context(throttled(decoder, 0.3))

        epochs = epochs_of(photographs, slow_down)
        slow = next(epochs)
        assert cause(slow) is Cause.CORES
        stack.close()
        next(epochs)
        fast = next(epochs)
        assert fast.decoded_cpu / fast.decoded > slow.decoded_cpu / slow.decoded
        assert fast.waited < slow.waited

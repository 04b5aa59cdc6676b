"""Batches have the images of the order, whatever the workers, decoders and format."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.order import LANES, TRAINING_SLOTS
from imagenet_spec.program.train import PROCESSES, THREADS, AugmentationOptions
from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import (
    PADDING,
    Decoding,
    ImageBatch,
    WorkerShare,
)
from imagenet_workloads.data.decoder import Task
from imagenet_workloads.data.order import Order, worker_positions
from imagenet_workloads.data.windows import (
    READERS,
    DroppedError,
    LaneReader,
    PendingRecord,
    Wanted,
    Windows,
)
from imagenet_workloads.dataset import RECORD_IO
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.records.split import Records
from support.image_splits import FORMATS, open_images, write_split
from support.pictures import jpeg
from support.reading import copied, ordered_training, validated
from support.reading import trained as trained_by

IMAGES = [jpeg(number, 24, 32) for number in range(200)]
AUGMENTED = AugmentationOptions(random_crop=True, random_mirror=True, brightness=0.4)
RECIPE = Recipe((3, 16, 16), AUGMENTED)


@pytest.fixture(scope="module", params=FORMATS)
def records(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Records:
    folder = tmp_path_factory.mktemp("split")
    return open_images(folder, request.param, IMAGES, shards=3)


@pytest.fixture(scope="module")
def record_io(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return open_images(tmp_path_factory.mktemp("record-io"), RECORD_IO, IMAGES, shards=3)


def trained(records: Records, share: WorkerShare, epoch: int = 0, **how: Any) -> list[ImageBatch]:
    return trained_by(records, RECIPE, share, epoch, **how)


def labels(batches: list[ImageBatch]) -> list[int]:
    return [int(label) for batch in batches for label in batch.labels[: batch.count]]


def pixels(batches: list[ImageBatch]) -> dict[int, bytes]:
    return {
        int(label): image.tobytes()
        for batch in batches
        for label, image in zip(batch.labels[: batch.count], batch.images, strict=False)
    }


def test_one_worker_trains_the_order(records: Records) -> None:
    batches = trained(records, WorkerShare(0, 1, 64, seed=7), epoch=3)
    assert labels(batches) == Order(200, 7).at(3, np.arange(200)).tolist()
    assert [batch.count for batch in batches] == [64, 64, 64, 8]
    assert {batch.images.shape for batch in batches} == {(64, 16, 16, 3)}
    assert {batch.images.dtype for batch in batches} == {np.dtype(np.uint8)}


def test_an_image_is_mixed_by_its_position_for_any_number_of_workers(record_io: Records) -> None:
    recipe = Recipe((3, 16, 16), AugmentationOptions(mixup=0.2, cutmix=1.0))

    def mixtures(workers: int, size: int) -> dict[int, tuple[float, list[int]]]:
        return {
            int(label): (float(share), box.tolist())
            for worker in range(workers)
            for batch in trained_by(
                record_io, recipe, WorkerShare(worker, workers, size, seed=3), epoch=1
            )
            if batch.mixing is not None
            for label, share, box in zip(
                batch.labels, batch.mixing.shares, batch.mixing.boxes, strict=False
            )
        }

    alone = mixtures(1, 64)
    assert len(alone) == 200 and alone == mixtures(2, 16)
    cut = sum(any(box) for _, box in alone.values())
    assert 60 < cut < 140


def test_epochs_without_augmentation_have_plain_images(record_io: Records) -> None:
    varied = AugmentationOptions(random_mirror=True, mixup=0.2, random_erasing=1.0)
    plain, share = Recipe((3, 16, 16)), WorkerShare(0, 1, 64)
    ending = Recipe((3, 16, 16), varied, augmented_epochs=1)
    first, last = (trained_by(record_io, ending, share, epoch) for epoch in (0, 1))
    assert all(batch.mixing is not None for batch in first)
    assert all(batch.mixing is None for batch in last)
    before, expected = (pixels(trained_by(record_io, plain, share, epoch)) for epoch in (0, 1))
    assert pixels(last) == expected
    varied_images = pixels(first)
    assert all(varied_images[label] != image for label, image in before.items())


def test_padding_repeats_the_images_of_the_batch(record_io: Records) -> None:
    *_, last = trained(record_io, WorkerShare(0, 1, 64))
    assert last.count == 8
    assert (last.images.reshape(8, 8, -1) == last.images[:8].reshape(1, 8, -1)).all()
    assert (last.labels[:8] >= 0).all()
    assert (last.labels[8:] == PADDING).all()


@settings(max_examples=15, deadline=None)
@given(
    workers=st.integers(1, 15),
    size=st.integers(1, 40),
    steps=st.integers(1, 3),
    position=st.integers(0, 200),
)
def test_workers_train_what_is_left_each_image_once(
    record_io: Records, workers: int, size: int, steps: int, position: int
) -> None:
    parts = []
    for worker in range(workers):
        share = WorkerShare(worker, workers, size, steps)
        with ordered_training(record_io, RECIPE, share) as training:
            batches = copied(training.epoch(1, position))
            first = training.first_batch(position)
            assert len(batches) == training.batches_per_epoch - first
            assert training.batches_per_epoch % steps == 0
        parts.append(batches)
    whole = Order(200, 0).at(1, np.arange(200)).tolist()
    assert sorted(label for part in parts for label in labels(part)) == sorted(whole[position:])
    # Step by step, the workers together train the next images of the order.
    for step, together in enumerate(zip(*parts, strict=True), start=position // (workers * size)):
        expected = whole[max(position, step * workers * size) : (step + 1) * workers * size]
        assert sorted(labels(list(together))) == sorted(expected)


@pytest.mark.costly
@pytest.mark.parametrize("by", [THREADS, PROCESSES])
def test_augmentation_is_the_same_for_any_number_of_workers_and_decoders(
    records: Records, by: str
) -> None:
    alone = pixels(trained(records, WorkerShare(0, 1, 64), decoders=1))
    assert len(alone) == 200
    shared: dict[int, bytes] = {}
    for worker in range(3):
        shared |= pixels(trained(records, WorkerShare(worker, 3, 7), decoders=4, by=by))
    assert shared == alone
    assert pixels(trained(records, WorkerShare(0, 1, 64), epoch=1)) != alone
    assert pixels(trained(records, WorkerShare(0, 1, 64, seed=1))) != alone


def test_both_formats_have_the_same_batches(tmp_path: Path) -> None:
    one, other = (
        trained(open_images(tmp_path / name, name, IMAGES, 4), WorkerShare(0, 1, 50))
        for name in FORMATS
    )
    for a, b in zip(one, other, strict=True):
        assert (a.labels == b.labels).all()
        assert (a.images == b.images).all()


def test_a_resumed_epoch_goes_on_with_the_same_pixels(record_io: Records) -> None:
    whole = pixels(trained(record_io, WorkerShare(0, 1, 32)))
    rest = trained(record_io, WorkerShare(0, 1, 32), position=75)
    assert [batch.count for batch in rest] == [21, 32, 32, 32, 8]
    assert {label: whole[label] for label in labels(rest)} == pixels(rest)


@contextmanager
def windows() -> Iterator[Windows]:
    memory = Windows(1 << 30)
    try:
        yield memory
    finally:
        memory.close()


def content(memory: Windows, record: PendingRecord) -> bytes:
    ended: SimpleQueue[BaseException | None] = SimpleQueue()
    record.reading.then(ended.put)
    assert ended.get() is None
    return os.pread(memory.descriptor, record.length, record.begin)


def take_all(records: Records, worker: int, workers: int, position: int = 0) -> int:
    """Read a worker's records of an epoch; return the bytes."""
    before, order = records.bytes_read, Order(records.count, 0)
    with windows() as memory:
        reader = LaneReader(records, order, 0, worker, workers, memory, Wanted())
        own = worker_positions(position, records.count, worker, workers)
        for positions in np.array_split(own, 50):
            for pending in reader.begin(positions):
                label = records.parse(pending.number, content(memory, pending)).label
                assert label == pending.number
    return records.bytes_read - before


def test_reads_have_a_mebibyte_and_each_byte_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = open_images(tmp_path, RECORD_IO, [bytes(100)] * LANES * 100, shards=4)
    # As many records as 1 MiB of photographs has.
    size = 12 * records.bytes // records.count
    monkeypatch.setattr("imagenet_workloads.data.windows.READ_BYTES", size)
    assert sum(take_all(records, worker, 2) for worker in range(2)) == records.bytes
    assert records.bytes_read / records.reads >= size
    assert records.opens == 4


def test_small_lanes_of_many_workers_are_read_once_too(record_io: Records) -> None:
    # Two workers share each lane.
    assert Order(200, 0).lanes == 6
    assert sum(take_all(record_io, worker, 4) for worker in range(4)) == record_io.bytes


@pytest.mark.parametrize("position", [1, 75, 199])
def test_a_resumed_epoch_reads_only_what_is_left(record_io: Records, position: int) -> None:
    left = Order(200, 0).at(0, np.arange(position, 200)).tolist()
    assert take_all(record_io, 0, 1, position) == record_io.size(left)


def test_memory_holds_what_is_read_and_not_yet_decoded(record_io: Records) -> None:
    with windows() as memory:
        reader = LaneReader(record_io, Order(200, 0), 0, 0, 1, memory, Wanted())
        taken = reader.begin(np.arange(100))
        held = {(one.begin, one.begin + one.length): content(memory, one) for one in taken}
        # No two records have a byte in common.
        edges = [edge for place in sorted(held) for edge in place]
        assert edges == sorted(edges)
        del taken
        reader.begin(np.arange(100, 200))
        del reader
        # What nobody wants is free again: the longest place is the whole.
        memory.arena.take(memory.arena.size, memory)


def test_validation_images_are_in_one_batch_of_one_worker(records: Records) -> None:
    recipe = Recipe((3, 16, 16), resize=20)
    found = [validated(records, recipe, 32, worker, 3) for worker in range(3)]
    counts = [[batch.count for batch in part] for part in found]
    assert counts == [[32, 32, 3], [32, 32, 3], [32, 32, 2]]
    assert [label for part in found for label in labels(part)] == list(range(200))
    assert not validated(records, RECIPE, 32, 299, 300)


def test_too_few_images_for_the_workers(record_io: Records) -> None:
    with pytest.raises(InputError, match="200 training images are too few for 201 workers"):
        trained(record_io, WorkerShare(0, 201, 8))


@pytest.mark.parametrize("by", [THREADS, PROCESSES])
@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_image_is_named(format: str, by: str, tmp_path: Path) -> None:
    images = [*IMAGES[:5], IMAGES[5][: len(IMAGES[5]) // 2], *IMAGES[6:50]]
    records = open_images(tmp_path, format, images)
    with pytest.raises(InputError, match=r"train-00000\.\w+: record 5 \(from 0\): "):
        trained(records, WorkerShare(0, 1, 8), by=by)


@pytest.fixture
def names() -> Callable[[], set[str]]:
    """Return what the threads that a test has started are called."""
    before = set(threading.enumerate())
    return lambda: {thread.name.partition("_")[0] for thread in set(threading.enumerate()) - before}


def test_an_epoch_that_is_left_early_can_be_begun_again(
    record_io: Records, names: Callable[[], set[str]]
) -> None:
    share = WorkerShare(0, 1, 8)
    whole = trained(record_io, share)
    with ordered_training(record_io, RECIPE, share) as training:
        for _ in range(2 * TRAINING_SLOTS):
            batches = training.epoch(0)
            next(batches)
            batches.close()  # type: ignore[attr-defined]
            assert "read-ahead" not in names()
        assert pixels(copied(training.epoch(0))) == pixels(whole)
        assert names() == {"decode", "read"}
    assert not names() & {"decode", "read", "read-ahead"}


def begun(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[int]:
    """Return a queue that gets the epoch of each task that is begun from now on."""
    epochs: SimpleQueue[int] = SimpleQueue()
    submit = Decoding.submit

    def note(decoding: Decoding, task: Task, *more: Any) -> None:
        epochs.put(task.epoch)
        submit(decoding, task, *more)

    monkeypatch.setattr(Decoding, "submit", note)
    return epochs


@pytest.mark.parametrize("by", [THREADS, PROCESSES])
def test_the_next_epoch_is_begun_before_it_is_asked_for(
    by: str,
    record_io: Records,
    monkeypatch: pytest.MonkeyPatch,
    names: Callable[[], set[str]],
) -> None:
    share = WorkerShare(0, 1, 64)
    fresh = [pixels(trained(record_io, share, epoch)) for epoch in range(3)]
    with ordered_training(record_io, RECIPE, share, by=by, epochs=3) as training:
        epochs = begun(monkeypatch)
        assert pixels(copied(training.epoch(0))) == fresh[0]
        while epochs.get(timeout=60) != 1:
            pass
        # As after a validation.
        assert pixels(copied(training.epoch(1))) == fresh[1]
        assert pixels(copied(training.epoch(2))) == fresh[2]
        assert "read-ahead" not in names(), "after the last epoch nothing is begun"
        # Another epoch than the one that was begun.
        assert pixels(copied(training.epoch(0))) == fresh[0]
        assert pixels(copied(training.epoch(2))) == fresh[2]


def test_an_epoch_that_another_one_has_replaced_ends_with_an_error(record_io: Records) -> None:
    with ordered_training(record_io, RECIPE, WorkerShare(0, 1, 8)) as training:
        former = training.epoch(0)
        next(former)
        assert len(copied(training.epoch(1))) == 25
        with pytest.raises(DroppedError):
            next(former)


def test_a_slot_is_filled_again_after_its_waits(record_io: Records) -> None:
    copying = threading.Event()

    def copied_from() -> None:
        copying.wait(60)

    with ordered_training(record_io, RECIPE, WorkerShare(0, 1, 8)) as training:
        batches = training.epoch(0)
        first = next(batches)
        expected = first.images.copy()
        first.waits.append(copied_from)
        # All other slots are filled while a GPU copies from this one.
        for _ in range(TRAINING_SLOTS - 1):
            next(batches)
        assert (first.images == expected).all()
        copying.set()
        assert len(list(batches)) == 25 - TRAINING_SLOTS


class Server:
    """Records of a server that fails, after a wait that a test ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
        self.asked: SimpleQueue[range] = SimpleQueue()
        self.answers = threading.Event()
        fill = Records.fill

        def slow(this: Records, run: range, memory: memoryview) -> None:
            self.asked.put(run)
            self.answers.wait(60)
            if fails:
                raise WorkloadError("the server does not answer")
            fill(this, run, memory)

        monkeypatch.setattr(Records, "fill", slow)

    def wait_for_readers(self) -> None:
        """Wait until each thread that reads waits for an answer."""
        for _ in range(READERS):
            self.asked.get(timeout=60)


def test_one_failed_read_ends_those_that_have_not_begun(
    record_io: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imagenet_workloads.data.windows.READ_BYTES", 1)
    server = Server(monkeypatch, fails=True)
    with (
        ThreadPoolExecutor(1) as asked,
        ordered_training(record_io, RECIPE, WorkerShare(0, 1, 50)) as training,
    ):
        asking = asked.submit(next, training.epoch(0))
        server.wait_for_readers()
        server.answers.set()
        with pytest.raises(WorkloadError, match="the server does not answer"):
            asking.result()
    assert server.asked.empty()


def test_reads_that_have_not_begun_are_dropped_with_their_epoch(
    record_io: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imagenet_workloads.data.windows.READ_BYTES", 1)
    whole = pixels(trained(record_io, WorkerShare(0, 1, 50)))
    server = Server(monkeypatch, fails=False)
    with (
        ThreadPoolExecutor(1) as asked,
        ordered_training(record_io, RECIPE, WorkerShare(0, 1, 50)) as training,
    ):
        batches = training.epoch(0)
        asking = asked.submit(next, batches)
        server.wait_for_readers()
        # Another thread closes: the reads of the first eight may end.
        closing = threading.Thread(target=training.close)
        dropped, end = threading.Event(), Wanted.end

        def note(this: Wanted, error: BaseException) -> BaseException:
            found = end(this, error)
            dropped.set()
            return found

        monkeypatch.setattr(Wanted, "end", note)
        closing.start()
        assert dropped.wait(60)
        server.answers.set()
        closing.join()
        with suppress(DroppedError):
            asking.result()
        assert server.asked.empty()
        assert pixels(copied(training.epoch(0))) == whole


# The generator is alive when the interpreter ends.
LEFT = """
import sys
from pathlib import Path
from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import Decoding, OrderedTraining, WorkerShare
from imagenet_workloads.records.split import open_paths

decoding = Decoding(2, sys.argv[2])
training = OrderedTraining(
    open_paths(sys.argv[1]), Recipe((3, 16, 16)), WorkerShare(0, 1, 8), decoding
)
batches = training.epoch(0)
print(next(batches).count, flush=True)
"""


@pytest.mark.parametrize("by", [THREADS, PROCESSES])
def test_a_program_that_closes_nothing_ends(by: str, tmp_path: Path) -> None:
    write_split(tmp_path, RECORD_IO, IMAGES)
    ended = subprocess.run(
        [sys.executable, "-c", LEFT, str(tmp_path / "train-00000.rec"), by],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "8\n", "")

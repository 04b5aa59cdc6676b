"""Batches have the images of the order, whatever the workers, threads and format."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_workloads.dataset import RECORD_IO
from imagenet_workloads.errors import InputError
from imagenet_workloads.reading import lane_reader
from imagenet_workloads.reading.augmentation import Recipe
from imagenet_workloads.reading.batches import (
    PADDING,
    ImageBatch,
    OrderedTraining,
    OrderedValidation,
    WorkerShare,
)
from imagenet_workloads.reading.lane_reader import LaneReader
from imagenet_workloads.reading.records import Records
from imagenet_workloads.train.options.groups import AugmentationOptions
from imagenet_workloads.train.order import LANES, Order, worker_positions
from support.image_splits import FORMATS, open_images
from support.pictures import jpeg

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


def trained(
    records: Records, share: WorkerShare, epoch: int = 0, position: int = 0, threads: int = 2
) -> list[ImageBatch]:
    return list(OrderedTraining(records, RECIPE, share, threads).epoch(epoch, position))


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
            for batch in OrderedTraining(
                record_io, recipe, WorkerShare(worker, workers, size, seed=3), 2
            ).epoch(1)
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
    first, last = (
        list(OrderedTraining(record_io, ending, share, 2).epoch(epoch)) for epoch in (0, 1)
    )
    assert all(batch.mixing is not None for batch in first)
    assert all(batch.mixing is None for batch in last)
    before, expected = (
        pixels(list(OrderedTraining(record_io, plain, share, 2).epoch(epoch))) for epoch in (0, 1)
    )
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
        training = OrderedTraining(record_io, RECIPE, share, threads=2)
        batches = list(training.epoch(1, position))
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


def test_augmentation_is_the_same_for_any_number_of_workers_and_threads(records: Records) -> None:
    alone = pixels(trained(records, WorkerShare(0, 1, 64), threads=1))
    assert len(alone) == 200
    shared: dict[int, bytes] = {}
    for worker in range(3):
        shared |= pixels(trained(records, WorkerShare(worker, 3, 7), threads=4))
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


def take_all(records: Records, worker: int, workers: int, position: int = 0) -> int:
    """Read a worker's records of an epoch; return the bytes."""
    before, order = records.bytes_read, Order(records.count, 0)
    with ThreadPoolExecutor(1) as executor:
        reader = LaneReader(records, order, 0, worker, workers, executor)
        own = worker_positions(position, records.count, worker, workers)
        for positions in np.array_split(own, 50):
            for pending in reader.begin(positions):
                label = records.parse(pending.number, pending.take()).label
                assert label == pending.number
    return records.bytes_read - before


def test_reads_have_a_mebibyte_and_each_byte_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = open_images(tmp_path, RECORD_IO, [bytes(100)] * LANES * 100, shards=4)
    # As many records as 1 MiB of photographs has.
    size = 12 * records.bytes // records.count
    monkeypatch.setattr(lane_reader, "READ_BYTES", size)
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


def test_memory_holds_a_window_of_each_lane(record_io: Records) -> None:
    with ThreadPoolExecutor(1) as executor:
        reader = LaneReader(record_io, Order(200, 0), 0, 0, 1, executor)
        taken = reader.begin(np.arange(100))
        assert [len(one.take()) > 0 for one in taken] == [True] * 100
        assert [len(one.take()) for one in taken] == [0] * 100


def test_validation_images_are_in_one_batch_of_one_worker(records: Records) -> None:
    validation = OrderedValidation(records, Recipe((3, 16, 16), resize=20), 32, threads=2)
    found = [list(validation.batches(worker, 3)) for worker in range(3)]
    counts = [[batch.count for batch in part] for part in found]
    assert counts == [[32, 32, 3], [32, 32, 3], [32, 32, 2]]
    assert [label for part in found for label in labels(part)] == list(range(200))
    assert not list(OrderedValidation(records, RECIPE, 32, 2).batches(299, 300))


def test_too_few_images_for_the_workers(record_io: Records) -> None:
    with pytest.raises(InputError, match="200 training images are too few for 201 workers"):
        OrderedTraining(record_io, RECIPE, WorkerShare(0, 201, 8), 1)


@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_image_is_named(format: str, tmp_path: Path) -> None:
    images = [*IMAGES[:5], IMAGES[5][: len(IMAGES[5]) // 2], *IMAGES[6:50]]
    records = open_images(tmp_path, format, images)
    with pytest.raises(InputError, match=r"train-00000\.\w+: record 5 \(from 0\): "):
        trained(records, WorkerShare(0, 1, 8))


def test_an_epoch_that_is_left_early_leaves_no_threads(record_io: Records) -> None:
    batches = OrderedTraining(record_io, RECIPE, WorkerShare(0, 1, 8), 2).epoch(0)
    next(batches)
    assert any(thread.name.startswith("decode") for thread in threading.enumerate())
    batches.close()  # type: ignore[attr-defined]
    assert not any(thread.name.startswith("decode") for thread in threading.enumerate())

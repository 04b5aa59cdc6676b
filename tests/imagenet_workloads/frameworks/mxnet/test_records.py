"""Records through MXNet's ImageRecordIter: who sees which image when."""

from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.order import share
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.record_files import RecordFiles, join
from imagenet_workloads.frameworks.mxnet.records import (
    Reader,
    RecordTraining,
    RecordValidation,
    augmentation_arguments,
)

SHAPE = (3, 8, 8)


def numbered(folder: Path, count: int, shards: int = 2) -> RecordFiles:
    """Records whose label is their number, in several shards."""
    pairs = []
    for place, numbers in enumerate(np.array_split(np.arange(count), shards)):
        record, index = folder / f"{place}.rec", folder / f"{place}.idx"
        writer = mx.recordio.MXIndexedRecordIO(str(index), str(record), "w")
        for key, number in enumerate(numbers):
            image = np.full((8, 8, 3), number, np.uint8)
            header = mx.recordio.IRHeader(0, float(number), key, 0)
            writer.write_idx(key, mx.recordio.pack_img(header, image, quality=95))
        writer.close()
        pairs.append((record, index))
    return join(pairs, folder / "joined.idx")


def reader(batch_size: int) -> Reader:
    return Reader(SHAPE, batch_size, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), threads=2)


def training(
    files: RecordFiles, rank: int, ranks: int, seed: int = 0, **augmentation: Any
) -> RecordTraining:
    return RecordTraining(reader(4), files, rank, ranks, seed, 1, augmentation)


def labels(data: RecordTraining, epoch: int, first: int = 0) -> list[list[int]]:
    return [batch.label.asnumpy().astype(int).tolist() for batch in data.epoch(epoch, first)]


def test_an_epoch_covers_all_images_in_equal_steps(tmp_path: Path) -> None:
    files = numbered(tmp_path, 26)
    ranks = [training(files, rank, 4) for rank in range(4)]
    # Shares of 7, 7, 7 and 5 images: two batches of 4 for everyone.
    seen = [labels(data, 0) for data in ranks]
    assert [len(batches) for batches in seen] == [2, 2, 2, 2]
    assert {label for batches in seen for batch in batches for label in batch} == set(range(26))


def test_a_share_smaller_than_the_batch_is_repeated(tmp_path: Path) -> None:
    files = numbered(tmp_path, 9)
    # Shares of 3, 3, 3, and batches of 4.
    assert [len(labels(training(files, rank, 3), 0)) for rank in range(3)] == [1, 1, 1]


def test_order_depends_on_seed_and_epoch_only(tmp_path: Path) -> None:
    files = numbered(tmp_path, 40)
    data = training(files, 0, 2)
    epochs = [labels(data, number) for number in range(4)]
    assert [labels(training(files, 0, 2), number) for number in (3, 1)] == [epochs[3], epochs[1]]
    assert epochs[0] != epochs[2]
    assert labels(training(files, 0, 2, seed=1), 0) != epochs[0]
    # Parts go round: with two workers, each has the other's images in the next epoch.
    whole = [{label for batch in epoch for label in batch} for epoch in epochs]
    assert whole[0] | whole[1] == set(range(40))
    assert whole[0] == whole[2]
    assert not whole[0] & whole[1]


def test_an_epoch_goes_on_at_any_batch(tmp_path: Path) -> None:
    files = numbered(tmp_path, 26)
    data = training(files, 1, 2)
    whole = labels(data, 5)
    for first in range(len(whole) + 1):
        assert labels(data, 5, first) == whole[first:]


def test_augmentation_is_repeated_too(tmp_path: Path) -> None:
    files = numbered(tmp_path, 16)
    chosen = parse(["--random-crop", "1", "--random-mirror", "1", "--brightness", "0.5"])
    arguments = augmentation_arguments(chosen.augmentation, pad=2, fill_value=9)

    def pixels(epoch: int) -> list[Any]:
        data = training(files, 0, 1, **arguments)
        return [batch.data.asnumpy() for batch in data.epoch(epoch, 0)]

    first, again, other = pixels(0), pixels(0), pixels(1)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--use-imagenet-data-augmentation", "1"],
        ["--random-crop", "1", "--min-random-scale", "0.533", "--max-random-scale", "1.2"],
        ["--max-random-rotate-angle", "10", "--max-random-shear-ratio", "0.1"],
        ["--max-random-h", "36", "--max-random-s", "50", "--max-random-l", "50"],
        ["--max-random-aspect-ratio", "0.25", "--pad-size", "4"],
    ],
)
def test_every_augmentation_is_one_of_mxnets(tmp_path: Path, arguments: list[str]) -> None:
    chosen = parse(arguments)
    pad, fill = chosen.data.pad_size, chosen.data.fill_value
    translated = augmentation_arguments(chosen.augmentation, pad, fill)
    data = training(numbered(tmp_path, 16), 0, 1, **translated)
    assert len(list(data.epoch(0, 0))) == 4


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 16])
def test_validation_shows_each_image_once(tmp_path: Path, ranks: int) -> None:
    files = numbered(tmp_path, 13)
    seen: list[int] = []
    for rank in range(ranks):
        mine: list[int] = []
        for batch in RecordValidation(reader(4), files, 0).batches(rank, ranks):
            assert batch.data.shape == (4, *SHAPE)
            mine += batch.label.asnumpy()[: batch.images].astype(int).tolist()
            # A grey image is its own number: pixels and labels belong together.
            shown = batch.data.asnumpy()[: batch.images, 0, 4, 4]
            assert np.allclose(shown, mine[-batch.images :], atol=2)
        assert len(mine) == share(13, rank, ranks)
        seen += mine
    assert sorted(seen) == list(range(13))


def test_validation_resizes_the_shorter_edge(tmp_path: Path) -> None:
    image = np.zeros((16, 32, 3), np.uint8)
    image[:, 16:] = 255
    writer = mx.recordio.MXIndexedRecordIO(str(tmp_path / "0.idx"), str(tmp_path / "0.rec"), "w")
    writer.write_idx(0, mx.recordio.pack_img(mx.recordio.IRHeader(0, 0.0, 0, 0), image))
    writer.close()
    files = join([(tmp_path / "0.rec", tmp_path / "0.idx")], tmp_path / "joined.idx")
    (batch,) = RecordValidation(reader(1), files, 8).batches(0, 1)
    # 16x32 becomes 8x16, whose middle 8 columns are half black and half white.
    columns = batch.data.asnumpy()[0, 0].mean(axis=0)
    assert columns[:3].max() < 60 < 200 < columns[5:].min()


def test_colours_mean_and_std_are_red_green_blue(tmp_path: Path) -> None:
    record, index = tmp_path / "0.rec", tmp_path / "0.idx"
    writer = mx.recordio.MXIndexedRecordIO(str(index), str(record), "w")
    # OpenCV's order is blue, green, red.
    image = np.full((8, 8, 3), (20, 90, 200), np.uint8)
    header = mx.recordio.IRHeader(0, 0.0, 0, 0)
    writer.write_idx(0, mx.recordio.pack_img(header, image, quality=100))
    writer.close()
    files = join([(record, index)], tmp_path / "joined.idx")
    normal = Reader(SHAPE, 1, (100.0, 50.0, 40.0), (10.0, 4.0, 2.0), threads=1)
    (batch,) = RecordValidation(normal, files, 0).batches(0, 1)
    assert np.allclose(batch.data.asnumpy()[0, :, 4, 4], [10, 10, -10], atol=1)


def test_each_skipped_batch_is_progress(tmp_path: Path) -> None:
    """ImageRecordIter reads what is skipped, which can take longer than the watchdog waits."""
    passed: list[bool] = []
    data = training(numbered(tmp_path, 40), 0, 1)
    batches = data.epoch(0, 6, lambda: passed.append(True))
    assert len(passed) == 6
    assert len(list(batches)) == 4
    assert len(passed) == 6


def test_too_many_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too few for 4 workers"):
        training(numbered(tmp_path, 3), 0, 4)


@pytest.mark.parametrize("threads", [1, 3])
def test_decoding_threads_are_handed_to_mxnet(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    original = mx.io.ImageRecordIter

    def remember(**arguments: Any) -> Any:
        given.update(arguments)
        return original(**arguments)

    monkeypatch.setattr(mx.io, "ImageRecordIter", remember)
    settings = Reader(SHAPE, 4, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), threads=threads)
    list(RecordValidation(settings, numbered(tmp_path, 8), 0).batches(0, 1))
    assert given["preprocess_threads"] == threads


def test_an_image_that_opencv_cannot_decode_is_damage(tmp_path: Path) -> None:
    """MXNet does not say which record it is; a retry would read it again."""
    files = numbered(tmp_path, 8, shards=1)
    (record,) = files.records
    content = bytearray(record.read_bytes())
    begin = content.index(b"\xff\xd8")
    content[begin : begin + 32] = bytes(32)
    record.write_bytes(content)
    readers = training(files, 0, 1).epoch(0, 0), RecordValidation(reader(4), files, 0).batches(0, 1)
    for batches in readers:
        with pytest.raises(
            InputError, match=r"an image cannot be decoded.* imagenet-seal --verify"
        ):
            list(batches)

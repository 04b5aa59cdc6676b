"""A bit that flips inside an image on a volume, as docs/dataset.md tells of it."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import WorkerShare
from imagenet_workloads.data.jpeg import JpegImage, Region
from imagenet_workloads.dataset import read_dataset, require_whole
from imagenet_workloads.errors import InputError
from imagenet_workloads.records.split import open_split
from support.pictures import collection, write_tar_of_tars
from support.preparation import prepare, verify
from support.reading import trained

IMAGES = collection({"n01": 6, "n02": 6})
Pixels = NDArray[np.uint8]


@pytest.fixture(params=["RecordIO", "TFRecord"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    source = write_tar_of_tars(tmp_path / "source.tar", IMAGES)
    return prepare(source, tmp_path / "data", "--shards", "1", "--format", request.param)


def epoch(folder: Path) -> Pixels:
    """What an epoch trains, after the checks of training."""
    sealed = read_dataset(folder)
    require_whole(sealed, folder)
    records = open_split(sealed.train, sealed.format, folder)
    (batch,) = trained(records, Recipe((3, 8, 8)), WorkerShare(0, 1, 12))
    return batch.images


def is_decoded(encoded: bytes) -> bool:
    try:
        image = JpegImage(encoded, 3)
        image.crop(Region(0, 0, *image.size), image.size)
    except ValueError:
        return False
    return True


def flip_inside_an_image(shard: Path, wanted: Callable[[bytes], bool]) -> None:
    """Flip a bit of the compressed pixels of a shard's first image, to some end."""
    content = shard.read_bytes()
    begin, end = content.index(b"\xff\xd8"), content.index(b"\xff\xd9") + 2
    scan = content.index(b"\xff\xda", begin) + 14
    for place in range(scan, end - 2):
        for bit in range(8):
            image = bytearray(content[begin:end])
            image[place - begin] ^= 1 << bit
            if wanted(bytes(image)):
                shard.write_bytes(content[:begin] + image + content[end:])
                return
    raise AssertionError("no bit has this end")


def shard_of(dataset: Path) -> Path:
    return dataset / read_dataset(dataset).train.shards[0].record


@pytest.mark.parametrize("dataset", ["RecordIO"], indirect=True)
def test_record_io_trains_other_pixels_that_only_the_checksums_find(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, shard = epoch(dataset), shard_of(dataset)
    flip_inside_an_image(shard, is_decoded)
    after = epoch(dataset)
    changed = [place for place in range(12) if not np.array_equal(before[place], after[place])]
    assert len(changed) == 1
    assert verify(dataset) == 3
    assert f"1 of 1 shards are damaged: {shard.name}: " in capsys.readouterr().err


@pytest.mark.parametrize("dataset", ["RecordIO"], indirect=True)
def test_record_io_names_an_image_that_cannot_be_decoded_any_more(dataset: Path) -> None:
    flip_inside_an_image(shard_of(dataset), lambda image: not is_decoded(image))
    with pytest.raises(InputError, match=rf"{re.escape(shard_of(dataset).name)}: record \d+ "):
        epoch(dataset)


@pytest.mark.parametrize("dataset", ["TFRecord"], indirect=True)
def test_tf_record_names_the_record_by_its_checksum(dataset: Path) -> None:
    flip_inside_an_image(shard_of(dataset), is_decoded)
    with pytest.raises(InputError, match=r"record \d+ .*checksum of its data is wrong"):
        epoch(dataset)

"""The list of images beside a shard: written by pack, published, verified, absent in old ones."""

import io
import os
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pytest

from imagenet_spec.names import FORMATS
from imagenet_workloads.commands import pack, seal
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.records.image_list import SUFFIX, ListedImage, read_image_list
from imagenet_workloads.records.split import open_split
from support.older_datasets import without_image_lists
from support.preparation import contents, prepare


def picture(seed: int, height: int, width: int) -> np.ndarray:
    """A picture with large shapes, which JPEG and a resize keep."""
    cells = np.random.default_rng(seed).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    return cv2.resize(cells, (width, height), interpolation=cv2.INTER_CUBIC)


def jpeg(seed: int, height: int = 60, width: int = 80) -> bytes:
    return cv2.imencode(".jpg", picture(seed, height, width))[1].tobytes()


def archive(path: Path, images: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in images.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture(params=FORMATS)
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    images = {f"{'ab'[n % 2]}/{n}é.jpg": jpeg(n, 60 + n, 80) for n in range(9)}
    images["b/broken.jpg"] = jpeg(10)[:500]
    source = archive(tmp_path / "images.tar", images)
    options = ["--format", request.param, "--shards", "2", "--resize", "32"]
    options += ["--validation-per-class", "1", "--max-skipped-fraction", "0.2"]
    return prepare(source, tmp_path / "data", *options)


def test_every_record_has_its_name_size_and_label(dataset: Path) -> None:
    sealed, names = read_dataset(dataset), set()
    for split in (sealed.train, sealed.validation):
        records = open_split(split, sealed.format, dataset)
        listed = [one for s in split.shards for one in read_image_list(dataset / s.record) or ()]
        assert [records.label(number) for number in range(records.count)] == [
            one.label for one in listed
        ]
        for one in listed:
            name, number = one.name, int(one.name[2:3])
            assert sealed.classes[one.label] == name[0]
            assert (one.width, one.height) == (80, 60 + number)
            assert len(one.hash) == 16
            assert int(one.hash, 16)
            names.add(name)
        records.close()
    assert names == {f"{'ab'[n % 2]}/{n}é.jpg" for n in range(9)}


def test_a_name_that_is_not_utf_8_stays(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
    odd = os.fsdecode(b"a/\xff.jpg")
    (folder / odd).write_bytes(jpeg(1))
    (folder / "b/1.jpg").write_bytes(jpeg(2))
    dataset = prepare(folder, tmp_path / "data", "--shards", "1")
    found = read_image_list(dataset / "train-00000-of-00001.rec")
    assert found is not None
    assert {image.name for image in found} == {odd, "b/1.jpg"}


def test_an_older_dataset_has_none(dataset: Path) -> None:
    record = dataset / read_dataset(dataset).train.shards[0].record
    without_image_lists(dataset)
    assert read_image_list(record) is None
    assert seal.main(["--verify", "--dataset", str(dataset)]) == 0


@pytest.mark.parametrize(
    "line", [b"{}", b'["a", "zz", 1, 1, 0]', b'["a", "00", 1]', b'["a", "-1", 1, 1, 0]', b"["]
)
def test_a_damaged_list_is_one_error(line: bytes, dataset: Path) -> None:
    record = dataset / read_dataset(dataset).train.shards[0].record
    record.with_name(f"{record.stem}{SUFFIX}").write_bytes(line + b"\n")
    with pytest.raises(InputError, match="the list of images is damaged"):
        read_image_list(record)


def test_a_damaged_list_is_found_and_written_again(
    dataset: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = contents(dataset)
    listing = dataset / (read_dataset(dataset).train.shards[1].image_list or "")
    listing.write_bytes(listing.read_bytes().replace(b"80", b"81"))
    assert seal.main(["--verify", "--dataset", str(dataset)]) == 3
    assert "its list of images is damaged" in capfd.readouterr().err
    common = ["--data", str(tmp_path / "data"), "--key", dataset.name]
    assert seal.main(["--verify", *common]) == 3
    assert pack.main([*common, "--source", str(tmp_path / "images.tar")]) == 0
    assert seal.main(common) == 0
    assert contents(dataset) == before


def test_a_line_is_read_as_it_was_written() -> None:
    from imagenet_workloads.records import image_list

    image = ListedImage('a "b"\\\n.jpg', "00ff00ff00ff00ff", 3, 4, 5)
    assert list(image_list.parse(image_list.to_line(image), "x")) == [image]

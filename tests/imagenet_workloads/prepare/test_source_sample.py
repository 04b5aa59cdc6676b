"""The estimate of a dataset's size, from images that are really made."""

from pathlib import Path

import numpy as np
import pytest

from imagenet_workloads import files
from imagenet_workloads.dataset import FORMATS
from imagenet_workloads.prepare import source_sample
from imagenet_workloads.prepare.codecs import choose
from imagenet_workloads.prepare.codecs.codec import Recipe
from imagenet_workloads.prepare.containers.folder import FolderListing
from imagenet_workloads.prepare.scan import scan
from imagenet_workloads.records import format_named
from support.pictures import Collection, collection, jpeg, write_folder
from support.preparation import prepare


def estimated(source: Path, scratch: Path, format: str, recipe: Recipe) -> int:
    folder = FolderListing(source)
    with files.unnamed_file(scratch) as rows:
        found = scan(folder, rows, lambda *_: None)
        numbers = np.arange(len(found), dtype=np.uint32)
        codec = choose("opencv")
        sample = source_sample.SourceSample(folder, found, numbers)
        return source_sample.estimate_bytes(sample, recipe, codec, format_named(format))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("resize", [None, 16, 60])
def test_the_shards_take_about_what_was_estimated(
    format: str, resize: int | None, tmp_path: Path
) -> None:
    source = write_folder(tmp_path / "source", collection({"a": 20, "b": 21}))
    told = estimated(source, tmp_path, format, Recipe(resize, 90))
    options = ("--shards", "2", "--format", format, "--codec", "opencv")
    more = () if resize is None else ("--resize", str(resize))
    dataset = prepare(source, tmp_path / "data", *options, *more)
    taken = sum(path.stat().st_size for path in dataset.glob("train-*.*") if path.suffix != ".json")
    assert taken <= told <= 1.25 * taken


def test_damaged_images_count_as_they_are(tmp_path: Path) -> None:
    whole: Collection = {"a": {"0.jpg": jpeg(0)}}
    damaged: Collection = {"a": {"0.jpg": bytes(len(whole["a"]["0.jpg"]))}}
    as_they_are = Recipe(None, 90)
    sizes = {
        estimated(write_folder(tmp_path / name, images), tmp_path, "RecordIO", as_they_are)
        for name, images in (("whole", whole), ("damaged", damaged))
    }
    assert len(sizes) == 1


def test_only_a_sample_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_sample, "SIZE", 5)
    read: list[str] = []
    real = FolderListing.read

    def counted(folder: FolderListing, name: str, offset: int, size: int) -> bytes:
        read.append(name)
        return real(folder, name, offset, size)

    monkeypatch.setattr(FolderListing, "read", counted)
    source = write_folder(tmp_path / "source", collection({"a": 30}))
    told = estimated(source, tmp_path, "RecordIO", Recipe(None, 90))
    assert len(read) == 5
    assert told > 25 * min(path.stat().st_size for path in source.rglob("*.JPEG"))

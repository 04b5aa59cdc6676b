"""The listing of folders: the same whatever the file system's order, in memory that is bounded."""

import os
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from imagenet_workloads.prepare.containers.folder import FolderListing
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.stores import volume


def scandir_of(names: int, seed: int) -> object:
    """A stand-in for os.scandir that lists so many names in any order, holding none."""
    step = random.Random(seed).choice([7, 11, 13])  # none divides the numbers below

    @contextmanager
    def scandir(_: Path) -> Iterator[Iterator[SimpleNamespace]]:
        numbers = (number * step % names for number in range(names))
        yield (SimpleNamespace(name=f"ILSVRC2012_{number:08}.JPEG") for number in numbers)

    return scandir


@pytest.mark.parametrize("count", [9_000, 10_000, 20_000])
def test_lists_each_name_once_whatever_the_order_of_the_file_system(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings = []
    for seed in (0, 1, 2):
        monkeypatch.setattr(os, "scandir", scandir_of(count, seed))
        listings.append(list(volume.sorted_names(tmp_path)))
    assert listings[0] == listings[1] == listings[2]
    expected = [f"ILSVRC2012_{number:08}.JPEG" for number in range(count)]
    assert sorted(listings[0]) == expected
    assert (listings[0] == expected) is (count < 10_000)


@pytest.mark.costly
def test_a_folder_of_many_times_the_images_takes_few_bytes_more_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "_MANY", 1_000)
    peaks = {}
    for count in (4_000, 24_000):
        monkeypatch.setattr(os, "scandir", scandir_of(count, 0))
        tracemalloc.start()
        assert sum(1 for _ in volume.sorted_names(tmp_path)) == count
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # Beside these, 12 bytes an image are kept for the whole of the source.
    assert (peaks[24_000] - peaks[4_000]) / 20_000 < 16


def test_images_of_a_folder_in_parts_are_all_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "_MANY", 10)
    for number in range(40):
        path = tmp_path / ("a", "b")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(number))
    images = list(DecidedSource(FolderListing(tmp_path)).scan(Notes()))
    assert sorted((image.class_name, image.size) for image in images) == sorted(
        (("a", "b")[number % 2], number) for number in range(40)
    )
    assert [image.class_name for image in images] == ["a"] * 20 + ["b"] * 20


def test_a_pipe_or_a_folder_that_is_named_like_an_image_is_none(tmp_path: Path) -> None:
    (tmp_path / "a" / "x.jpg").mkdir(parents=True)
    (tmp_path / "a" / "x.jpg" / "y.jpg").write_bytes(b"y")
    os.mkfifo(tmp_path / "a" / "pipe.jpg")
    notes = Notes()
    assert [image.name for image in FolderListing(tmp_path).scan(notes)] == ["a/x.jpg/y.jpg"]
    assert notes.ignored == 1

"""A scan keeps little of each image, and finds the rest again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.scan import REPORT_EVERY, Scan, scan
from imagenet_workloads.prepare.source import Image, Notes, Source

names = st.binary(min_size=1, max_size=400).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
images = st.builds(
    Image,
    class_name=st.sampled_from(["a", "b", "ü"]),
    name=names,
    offset=st.integers(0, 2**48),
    size=st.integers(0, 2**40),
    mtime=st.integers(0, 2**62),
)


@dataclass
class Listed(Source):
    """A source that is a list."""

    images: list[Image]
    notes: Notes = field(default_factory=Notes)
    where: str = "the list"

    kind = "list"

    def scan(self, notes: Notes) -> Iterator[Image]:
        notes.ignored, notes.empty = self.notes.ignored, self.notes.empty
        for number, image in enumerate(self.images):
            notes.share = number / len(self.images)
            yield image

    def read(self, name: str, offset: int, size: int) -> bytes:
        raise NotImplementedError


def scanned(folder: Path, images: list[Image]) -> Scan:
    # Stays open as long as the scan's rows are asked for.
    rows = (folder / "rows").open("w+b")
    return scan(Listed(images), rows, lambda *_: None)


@given(found=st.lists(images, min_size=1, max_size=20))
def test_every_row_is_found_again(
    found: list[Image], tmp_path_factory: pytest.TempPathFactory
) -> None:
    result = scanned(tmp_path_factory.mktemp("scan"), found)
    assert len(result) == len(found)
    expected = [(image.offset, image.size, image.name) for image in found]
    assert list(result.rows()) == expected
    assert [result.row(number) for number in reversed(range(len(found)))] == expected[::-1]
    classes = [result.class_names[number] for number in result.classes()]
    assert classes == [image.class_name for image in found]
    assert result.bytes == sum(image.size for image in found)


@given(found=st.lists(images, min_size=2, max_size=6, unique=True), data=st.data())
def test_the_fingerprint_covers_all_that_was_listed(
    found: list[Image], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("scan")
    number = data.draw(st.integers(0, len(found) - 1))
    one = found[number]
    part = data.draw(st.integers(0, len(one) - 1))
    values: list[Any] = list(one)
    values[part] += 1 if isinstance(values[part], int) else "x"
    other = Image(*values)
    before = scanned(folder, found).fingerprint()
    assert scanned(folder, found).fingerprint() == before
    assert scanned(folder, [*found[:number], other, *found[number + 1 :]]).fingerprint() != before
    assert scanned(folder, found[::-1]).fingerprint() != before
    assert scanned(folder, found[1:]).fingerprint() != before


@pytest.mark.parametrize("count", [1, REPORT_EVERY - 1, REPORT_EVERY, 2 * REPORT_EVERY + 7])
def test_all_images_are_told_and_the_end_too(count: int, tmp_path: Path) -> None:
    told: list[tuple[int, float]] = []
    found = [Image("a", f"{number}.jpg", 0, 1, 0) for number in range(count)]
    with files.unnamed_file(tmp_path) as rows:
        scan(Listed(found), rows, lambda images, share: told.append((images, share)))
    assert sum(images for images, _ in told) == count
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        (Notes(), "the list: holds no images"),
        (Notes(empty=["a", "b"]), "the list: holds no images, only 2 empty classes; give a folder"),
        (Notes(ignored=3), "only 3 files that are not named like images (.bmp, .heic,"),
        (Notes(ignored=3, empty=["a"]), "only 1 empty class and 3 files that are not named"),
    ],
)
def test_a_source_without_images_is_refused(notes: Notes, message: str, tmp_path: Path) -> None:
    with files.unnamed_file(tmp_path) as rows, pytest.raises(InputError) as caught:
        scan(Listed([], notes), rows, lambda *_: None)
    assert message in str(caught.value)

"""A scan keeps little of each image, and finds the rest again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads import files
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.containers.archive import Archive, Member
from imagenet_workloads.prepare.containers.archives import ArchiveSet, InnerArchives
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.scan import REPORT_EVERY, ListingJournal, Scan, kept_listing, scan
from imagenet_workloads.prepare.source import Image, Notes, Source
from imagenet_workloads.prepare.sources.volume import open_source
from imagenet_workloads.prepare.stores.blob import Blob, FileSet
from support.blobs import BytesBlob
from support.pictures import collection, tar, write_folder, write_tar_of_tars

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


CLASSES = [f"n{number:02d}" for number in range(12)]
LAST = CLASSES[-1]
IMAGES = collection(dict.fromkeys(CLASSES, 3))


class Listings:
    """Which archives are listed, and one that is lost once all others are."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_lost = False
        self.others = threading.Semaphore(0)

    def of(self, name: str, images: Iterator[Image]) -> Iterator[Image]:
        self.names.append(name)
        if self.is_lost and name.startswith(LAST):
            for _ in CLASSES[1:]:
                assert self.others.acquire(timeout=60)
            raise WorkloadError("the source is lost")
        yield from images

    def kept(self) -> None:
        """Another archive is in the journal."""
        self.others.release()


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> Listings:
    found = Listings()
    of_outer, of_set = InnerArchives.images_of, ArchiveSet._images
    of_journal = ListingJournal.listed

    def listed(
        journal: ListingJournal, archive: str, scan: Callable[[Notes], str]
    ) -> tuple[str, Notes]:
        result = of_journal(journal, archive, scan)
        found.kept()
        return result

    def inner_images(listing: InnerArchives, outer: Member, notes: Notes) -> Iterator[Image]:
        return found.of(outer.name.removesuffix(".tar"), of_outer(listing, outer, notes))

    def images(files: ArchiveSet, name: str, archive: Archive, notes: Notes) -> Iterator[Image]:
        return found.of(name, of_set(files, name, archive, notes))

    monkeypatch.setattr(InnerArchives, "images_of", inner_images)
    monkeypatch.setattr(ArchiveSet, "_images", images)
    monkeypatch.setattr(ListingJournal, "listed", listed)
    return found


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tar_of_tars(tmp_path / "x.tar", IMAGES)


def set_of(files: FileSet) -> Source:
    return DecidedSource(ArchiveSet(files, files.names))


def fingerprint(source: Source, folder: Path) -> str:
    """List a source with a journal in a folder."""
    rows = (folder / "rows").open("w+b")
    with rows, kept_listing(source, folder):
        return scan(source, rows, lambda images, share: None).fingerprint()


def journals(folder: Path) -> list[Path]:
    return list(folder.glob(".listing-*"))


def interrupted(archive: Path, folder: Path, listings: Listings) -> Path:
    """List all archives but the last; return the journal."""
    listings.is_lost = True
    with pytest.raises(WorkloadError, match="is lost"):
        fingerprint(open_source(archive), folder)
    listings.is_lost = False
    listings.names.clear()
    (journal,) = journals(folder)
    return journal


def test_the_next_run_lists_what_is_missing(
    archive: Path, tmp_path: Path, listings: Listings
) -> None:
    whole = fingerprint(open_source(archive), tmp_path)
    assert journals(tmp_path) == []
    assert sorted(listings.names) == CLASSES
    interrupted(archive, tmp_path, listings)

    assert fingerprint(open_source(archive), tmp_path) == whole
    assert listings.names == [LAST]
    assert journals(tmp_path) == []


class Served(FileSet):
    """Archives that come from a server: each has a tag, and several are read at a time."""

    where = "https://images.example.com/classes"
    reads_at_once = 4
    has_tags = True

    def __init__(self) -> None:
        self.content = {f"{name}.tar": tar(images) for name, images in IMAGES.items()}
        self.names = list(self.content)
        self.versions = dict.fromkeys(self.names, "1")

    def open(self, name: str) -> Blob:
        return BytesBlob(self.content[name])

    def tag(self, name: str) -> str:
        return self.versions[name]

    def close(self) -> None:
        """There is nothing to close."""


def test_archives_of_a_server_are_kept_by_their_tags(tmp_path: Path, listings: Listings) -> None:
    whole = fingerprint(set_of(Served()), tmp_path)
    listings.names.clear()
    listings.is_lost = True
    with pytest.raises(WorkloadError, match="is lost"):
        fingerprint(set_of(Served()), tmp_path)
    listings.is_lost = False
    listings.names.clear()

    files = Served()
    files.versions["n03.tar"] = "2"
    assert fingerprint(set_of(files), tmp_path) == whole
    assert sorted(listings.names) == ["n03.tar", f"{LAST}.tar"]


def cut(journal: bytes) -> bytes:
    return journal[:-9]


def flipped(journal: bytes) -> bytes:
    return journal[:40] + bytes([journal[40] ^ 1]) + journal[41:]


def doubled(journal: bytes) -> bytes:
    first = journal.index(b"\n") // 2
    return journal[:first] + journal


@pytest.mark.parametrize("damage", [cut, flipped, doubled])
def test_a_damaged_line_is_listed_again(
    damage: Callable[[bytes], bytes], archive: Path, tmp_path: Path, listings: Listings
) -> None:
    whole = fingerprint(open_source(archive), tmp_path)
    journal = interrupted(archive, tmp_path, listings)
    journal.write_bytes(damage(journal.read_bytes()))
    listings.is_lost = True
    # One archive more than before.
    listings.others.release(len(CLASSES) - 2)
    with pytest.raises(WorkloadError, match="is lost"):
        fingerprint(open_source(archive), tmp_path)
    assert len(listings.names) == 2
    listings.is_lost = False
    listings.names.clear()
    assert fingerprint(open_source(archive), tmp_path) == whole
    assert listings.names == [LAST]


def test_another_archive_of_the_same_name_is_listed_as_a_whole(
    archive: Path, tmp_path: Path, listings: Listings
) -> None:
    interrupted(archive, tmp_path, listings)
    os.utime(archive, (1, 1))
    fingerprint(open_source(archive), tmp_path)
    assert sorted(listings.names) == CLASSES


def test_what_was_passed_over_counts_after_an_interruption(
    tmp_path: Path, listings: Listings
) -> None:
    first = {**IMAGES[CLASSES[0]], "notes.txt": b"x"}
    archive = write_tar_of_tars(tmp_path / "x.tar", {**IMAGES, CLASSES[0]: first})
    interrupted(archive, tmp_path, listings)
    source = open_source(archive)
    with (tmp_path / "rows").open("w+b") as rows, kept_listing(source, tmp_path):
        assert scan(source, rows, lambda images, share: None).notes.suffixes == {".txt": 1}


def test_a_journal_that_nobody_needs_goes(
    archive: Path, tmp_path: Path, listings: Listings
) -> None:
    old, young = tmp_path / ".listing-old", tmp_path / ".listing-young"
    for path in (old, young):
        path.touch()
    os.utime(old, (1, 1))
    fingerprint(open_source(archive), tmp_path)
    assert journals(tmp_path) == [young]


def test_a_folder_keeps_no_journal(tmp_path: Path) -> None:
    source = open_source(write_folder(tmp_path / "images", IMAGES))
    with kept_listing(source, tmp_path):
        assert journals(tmp_path) == []

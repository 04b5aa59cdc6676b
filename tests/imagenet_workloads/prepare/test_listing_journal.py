"""A run of index that was interrupted: the next one lists only the archives that are missing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.prepare import listing_journal
from imagenet_workloads.prepare.containers.archive import Archive, Member
from imagenet_workloads.prepare.containers.archives import ArchiveSet, InnerArchives
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.scan import scan
from imagenet_workloads.prepare.source import Image, Notes, Source
from imagenet_workloads.prepare.sources.volume import open_source
from imagenet_workloads.prepare.stores.blob import Blob, FileSet
from support.blobs import BytesBlob
from support.pictures import collection, tar, write_folder, write_tar_of_tars

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
    add = listing_journal.ListingJournal._add

    def added(journal: listing_journal.ListingJournal, entry: bytes) -> None:
        add(journal, entry)
        found.kept()

    def inner_images(listing: InnerArchives, outer: Member, notes: Notes) -> Iterator[Image]:
        return found.of(outer.name.removesuffix(".tar"), of_outer(listing, outer, notes))

    def images(files: ArchiveSet, name: str, archive: Archive, notes: Notes) -> Iterator[Image]:
        return found.of(name, of_set(files, name, archive, notes))

    monkeypatch.setattr(InnerArchives, "images_of", inner_images)
    monkeypatch.setattr(ArchiveSet, "_images", images)
    monkeypatch.setattr(listing_journal.ListingJournal, "_add", added)
    return found


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tar_of_tars(tmp_path / "x.tar", IMAGES)


def set_of(files: FileSet) -> Source:
    return DecidedSource(ArchiveSet(files, files.names))


def fingerprint(source: Source, folder: Path) -> str:
    """List a source with a journal in a folder."""
    rows = (folder / "rows").open("w+b")
    with rows, listing_journal.kept(source, folder):
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
    with (tmp_path / "rows").open("w+b") as rows, listing_journal.kept(source, tmp_path):
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
    with listing_journal.kept(source, tmp_path):
        assert journals(tmp_path) == []

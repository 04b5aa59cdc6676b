"""The estimates beside what listing and reading then take, for each layout of an archive."""

import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier

import pytest

from imagenet_workloads.clients import TRAFFIC
from imagenet_workloads.prepare.source import Image, Location, Notes, ReadingEstimate, Source
from imagenet_workloads.prepare.sources.opening import (
    limited_estimates,
    open_archive,
    seconds_to_read,
)
from imagenet_workloads.prepare.stores.remote import MOST_REQUESTS, HeaderWindow, Limit
from support.pictures import zipped

CLASSES, IMAGES = 6, 300
TINY_CLASSES, TINY_IMAGES = 600, 3


class CountedFile:
    """A file as a `Blob` of a server: each read is a request, which takes its time."""

    latency = 0.01

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self.size = path.stat().st_size
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self, offset: int, size: int) -> bytes:
        TRAFFIC.add(1, size)
        # With none, one thread alone may list many archives, whose windows then are neighbours.
        time.sleep(self.latency)
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        os.close(self._descriptor)


def header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)


def write_tar_of_tars(path: Path, classes: int, images: int, bytes: int) -> None:
    """Writes a tar of class tars, whose images are holes of the file."""
    room = 512 + -(-bytes // 512) * 512
    inner = images * room + 1024
    with path.open("wb") as file:
        for number in range(classes):
            start = number * (512 + inner)
            file.seek(start)
            file.write(header(f"n{number:02}.tar", inner))
            for image in range(images):
                file.seek(start + 512 + image * room)
                file.write(header(f"{image:03}.jpg", bytes))
        file.truncate(classes * (512 + inner) + 1024)


def write_zip(path: Path, bytes: int) -> None:
    content = b"\xff" * bytes
    path.write_bytes(
        zipped({f"n{one // IMAGES:02}/{one}.jpg": content for one in range(CLASSES * IMAGES)})
    )


@pytest.fixture(params=["tar of tars", "tar of tiny tars", "zip"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    path = tmp_path / "train"
    if request.param == "zip":
        write_zip(path, 2_000)
    elif request.param == "tar of tars":
        write_tar_of_tars(path, CLASSES, IMAGES, 100_000)
    else:
        write_tar_of_tars(path, TINY_CLASSES, TINY_IMAGES, 2_000)
    opened = open_archive(HeaderWindow(CountedFile(path)))
    yield opened
    opened.close()


def test_it_is_about_what_the_listing_takes(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.reads_at_once = 32
    listing, packing = limited_estimates(source, Limit(MOST_REQUESTS, "source.http.cache"))
    requests, bytes = TRAFFIC.requests, TRAFFIC.bytes
    images = list(source.scan(Notes()))
    assert len(images) == CLASSES * IMAGES  # of tiny ones as many
    assert is_about(listing, TRAFFIC.requests - requests, TRAFFIC.bytes - bytes)
    # One thread reads, so its requests are the same without it.
    monkeypatch.setattr(CountedFile, "latency", 0.0)
    requests, bytes = TRAFFIC.requests, TRAFFIC.bytes
    for image in images:
        assert len(source.read(image.name, image.offset, image.size)) == image.size
    assert is_about(packing, TRAFFIC.requests - requests, TRAFFIC.bytes - bytes)


def is_about(expected: ReadingEstimate, requests: int, bytes: int) -> bool:
    """Threads that list neighbouring tars may need one request for both, so requests vary."""
    return (
        requests / 2 <= expected.requests <= requests * 2
        and bytes / 1.5 <= expected.bytes <= bytes * 1.5
    )


class Delayed(Source):
    """Images of a server of which each takes a second, as long as one other is read meanwhile."""

    kind = where = "delayed"

    def __init__(self, clock: list[float], at_once: int) -> None:
        self.reads_at_once = at_once
        self._clock = clock
        self._together = Barrier(at_once)

    def scan(self, notes: Notes) -> Iterator[Image]:
        yield from ()

    def read(self, name: str, offset: int, size: int) -> bytes:
        TRAFFIC.add(1, size)
        if self._together.wait() == 0:
            self._clock[0] += 1
        self._together.wait()
        return bytes(size)


def test_the_time_of_pack_is_that_of_reads_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    locations = [Location(f"{number}.jpg", 0, 1_000) for number in range(100)]
    # Of the first 12, 4 open the connections, and 8 take 2 seconds.
    seconds = seconds_to_read(Delayed(clock, 4), locations, bytes=1_000_000)
    assert (clock[0], seconds) == (3, 250)

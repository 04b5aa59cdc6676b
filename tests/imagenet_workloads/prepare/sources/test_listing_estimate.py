"""The estimate of a listing beside what the listing then takes, for each layout of an archive."""

import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_workloads.clients.traffic import TRAFFIC
from imagenet_workloads.prepare.sources.archives import open_archive
from imagenet_workloads.prepare.sources.header_window import HeaderWindow
from imagenet_workloads.prepare.sources.listing_estimate import estimate
from imagenet_workloads.prepare.sources.source import Notes, Source
from support.pictures import zipped

CLASSES, IMAGES = 6, 300
TINY_CLASSES, TINY_IMAGES = 600, 3
LATENCY_SECONDS = 0.001


class CountedFile:
    """A file as a `Blob` of a server: each read is a request, which takes its time."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self.size = path.stat().st_size
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self, offset: int, size: int) -> bytes:
        TRAFFIC.add(1, size)
        # With none, one thread alone may list many archives, whose windows then are neighbours.
        time.sleep(LATENCY_SECONDS)
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
        write_zip(path, 100)
    elif request.param == "tar of tars":
        write_tar_of_tars(path, CLASSES, IMAGES, 100_000)
    else:
        write_tar_of_tars(path, TINY_CLASSES, TINY_IMAGES, 2_000)
    opened = open_archive(HeaderWindow(CountedFile(path)))
    yield opened
    opened.close()


def test_it_is_about_what_the_listing_takes(source: Source) -> None:
    expected = estimate(source)
    requests, bytes = TRAFFIC.requests, TRAFFIC.bytes
    assert sum(1 for _ in source.scan(Notes())) == CLASSES * IMAGES  # of tiny ones as many
    taken = TRAFFIC.requests - requests, TRAFFIC.bytes - bytes
    assert taken[0] / 1.5 <= expected.requests <= taken[0] * 1.5
    assert taken[1] / 1.5 <= expected.bytes <= taken[1] * 1.5

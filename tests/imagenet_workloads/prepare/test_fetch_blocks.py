"""Blocks of one file, which several connections fetch at the same time; and no limit of size."""

import gzip
import os
import re
import threading
from collections import deque
from http import HTTPStatus
from pathlib import Path

import pytest

from imagenet_workloads.commands import fetch
from imagenet_workloads.prepare import fetch as fetching
from imagenet_workloads.prepare.sources.cache import cache_entry
from imagenet_workloads.prepare.stores import compressed
from support.file_server import Fault, FileServer, Handler
from support.pictures import collection, write_tar_of_tars
from support.preparation import prepare
from support.remote_preparation import files_on_server, prepare_fetched

BLOCK = 4096
BLOCKS = 26
CONTENT = bytes(range(256)) * (BLOCK // 256) * BLOCKS
CONNECTIONS = 4


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "BLOCK", BLOCK)


class Meeting:
    """Answers the first blocks only when as many requests are open at the same time."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=60)
        self.ports: set[int] = set()
        self._left = threading.Semaphore(size)

    def answer(self, handler: Handler) -> None:
        first, last = re.findall(r"\d+", handler.headers["Range"])
        is_block = int(last) - int(first) + 1 == BLOCK
        if is_block and self._left.acquire(blocking=False):
            self.ports.add(handler.client_address[1])
            self.barrier.wait()
        handler.serve()


def test_blocks_of_one_file_are_fetched_at_the_same_time(tmp_path: Path) -> None:
    meeting, cache = Meeting(CONNECTIONS), tmp_path / "cache"
    faults: deque[Fault | None] = deque([meeting.answer] * 10 * BLOCKS)
    with FileServer({"/x.tar": CONTENT}, faults=faults).running() as server:
        url = f"{server.url}/x.tar"
        options = [*files_on_server(server.url, "x.tar"), "--cache", str(cache)]
        assert fetch.main([*options, "--connections", str(CONNECTIONS)]) == 0
    # A connection that came alone would have broken the barrier.
    assert not meeting.barrier.broken
    assert len(meeting.ports) == CONNECTIONS
    assert cache_entry(cache, "x.tar", url).open().read(0, len(CONTENT)) == CONTENT


def expired(handler: Handler) -> None:
    handler.refuse(HTTPStatus.FORBIDDEN)


@pytest.mark.parametrize("is_left", [True, False])
def test_another_job_continues_a_file_that_no_job_writes_any_more(
    is_left: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, received = tmp_path / "cache", 16
    faults: deque[Fault | None] = deque([*[None] * received, *[expired] * BLOCKS])
    with FileServer({"/x.tar": CONTENT}, faults=faults).running() as server:
        url = f"{server.url}/x.tar"
        options = [
            *files_on_server(server.url, "x.tar"),
            "--cache",
            str(cache),
            "--connections",
            "1",
        ]
        monkeypatch.setenv("IMAGENET_JOB_UID", "job-whose-link-expires")
        assert fetch.main(options) == 3
        server.faults.clear()
        (journal,) = cache.rglob("*.blocks")
        present = len(journal.read_text().splitlines()) - 1
        assert present >= received - 4, "the others ask for the size and the format"
        if is_left:
            now = journal.stat().st_mtime
            os.utime(journal, (now, now - fetching.LEFT_SECONDS - 1))
        before = len(server.requests)
        monkeypatch.setenv("IMAGENET_JOB_UID", "the-next-job")
        assert fetch.main(options) == 0
        ranges = [request.headers.get("Range", "") for request in server.requests[before:]]
    blocks = sum(one.endswith(f"-{(n + 1) * BLOCK - 1}") for one in ranges for n in range(BLOCKS))
    assert blocks == (BLOCKS - present if is_left else BLOCKS)
    assert cache_entry(cache, "x.tar", url).open().read(0, len(CONTENT)) == CONTENT
    assert bool(list(cache.rglob("*.blocks"))) == (not is_left)


def test_a_cache_decompresses_an_archive_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As winter21_whole.tar.gz, of which a volume would be refused."""
    images = collection({"n01": 4, "n02": 3})
    archive = write_tar_of_tars(tmp_path / "whole.tar", images)
    dataset = ("--validation-per-class", "1", "--shards", "1")
    local = prepare(archive, tmp_path / "local", *dataset)
    monkeypatch.setattr(compressed, "LARGEST_COMPRESSED", 1000)
    monkeypatch.setattr(compressed, "LARGEST", 1000)
    with FileServer({"/whole.tar.gz": gzip.compress(archive.read_bytes())}).running() as server:
        reading = files_on_server(server.url, "whole.tar.gz")
        found = prepare_fetched(tmp_path / "cache", tmp_path / "data", reading, *dataset)
    assert (found / "dataset.json").read_bytes() == (local / "dataset.json").read_bytes()

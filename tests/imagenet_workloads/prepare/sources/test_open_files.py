"""Fetch, index and pack of many archives: requests at the same time, and files that stay open."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from imagenet_workloads.commands import fetch
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources import cache
from imagenet_workloads.prepare.sources.cache import CachedFile
from imagenet_workloads.prepare.stores.blob import SourceChangedError
from support.file_server import FileServer, Handler
from support.pictures import jpeg, tar
from support.preparation import finish, start
from support.processes import DEADLINE_SECONDS

# The limit of a process, and the number of cached files that it keeps open.
FEW_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from imagenet_workloads.prepare.sources import cache
cache.MOST_OPEN_FILES = 16
"""


@pytest.fixture
def files(tmp_path: Path) -> list[CachedFile]:
    found = []
    for number in range(5):
        path = tmp_path / f"{number}.tar"
        path.write_bytes(b"%d" % number)
        found.append(CachedFile(path, 1))
    return found


def opened(folder: Path) -> list[str]:
    """The names of the files of a folder that this process has open."""
    links = Path("/proc/self/fd").iterdir()
    paths = [link.readlink() for link in links if link.is_symlink()]
    return sorted(path.name for path in paths if path.parent == folder)


@pytest.mark.costly
def test_more_archives_may_be_prepared_than_a_process_may_open(tmp_path: Path) -> None:
    content = {
        f"/n{number:02}.tar": tar({f"{one}.jpg": jpeg(number + one) for one in range(2)})
        for number in range(70)
    }
    with FileServer(content).running() as server:
        folder = ("--http-folder", f"{server.url}/", "--http-name", "n{00..69}.tar")
        reading, data = (*folder, "--cache", tmp_path / "cache"), ("--data", tmp_path / "data")
        split = ("--validation-per-class", "1", "--shards", "1")
        for name, options in (("fetch", ()), ("index", (*data, *split))):
            code, _, errors = finish(start(name, *reading, *options, hook=FEW_FILES))
            assert code == 0, errors
        (plan,) = (tmp_path / "data" / "datasets").iterdir()
        code, _, errors = finish(
            start("pack", *reading, *data, "--key", plan.name, "--threads", "2", hook=FEW_FILES)
        )
        assert code == 0, errors


def test_fetch_begins_several_files_at_the_same_time(tmp_path: Path) -> None:
    together = Barrier(4, timeout=DEADLINE_SECONDS)

    def wait_for_others(handler: Handler) -> None:
        together.wait()
        handler.serve()

    content = {f"/{number}.tar": tar({"a.jpg": jpeg(number)}) for number in range(6)}
    with FileServer(content).running() as server:
        server.faults.extend([wait_for_others] * 4)
        folder = ["--http-folder", f"{server.url}/", "--http-name", "{0..5}.tar"]
        assert fetch.main([*folder, "--cache", str(tmp_path), "--connections", "4"]) == 0
    assert not together.broken
    stored = {path.name[-5:]: path.read_bytes() for path in tmp_path.rglob("*.tar")}
    assert {f"/{name}": one for name, one in stored.items()} == content


def test_the_files_read_last_stay_open(
    files: list[CachedFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MOST_OPEN_FILES", 3)
    for number in (0, 1, 2, 0, 3, 4, 0):
        assert files[number].read(0, 1) == b"%d" % number
    assert opened(tmp_path) == ["0.tar", "3.tar", "4.tar"]
    for file in files:
        file.close()
    assert opened(tmp_path) == []


def test_threads_read_the_right_file_while_others_are_closed(
    files: list[CachedFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MOST_OPEN_FILES", 1)
    order = [number % 5 for number in range(2000)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda number: files[number].read(0, 1), order))
    assert found == [b"%d" % number for number in order]
    assert len(opened(tmp_path)) == 1
    for file in files:
        file.close()


def test_a_file_that_another_fetch_replaced_is_named(tmp_path: Path) -> None:
    file = CachedFile(tmp_path / "x.tar", 1)
    with pytest.raises(SourceChangedError, match=r"x\.tar: is no longer in the cache"):
        file.read(0, 1)
    (tmp_path / "x.tar").mkdir()
    with pytest.raises(InputError, match=r"x\.tar: cannot be read: Is a directory"):
        file.read(0, 1)

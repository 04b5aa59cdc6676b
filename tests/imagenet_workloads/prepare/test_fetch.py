"""Files of a server in a cache: fetched once, whatever server, process and volume do meanwhile."""

import bz2
import errno
import gzip
import hashlib
import lzma
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from queue import SimpleQueue

import pytest
import zstandard

from imagenet_workloads import files
from imagenet_workloads.commands import fetch, index, pack, seal
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import NO_ROOM
from imagenet_workloads.prepare import fetch as fetching
from imagenet_workloads.prepare.sources.cache import ABANDONED_SECONDS, cache_entry
from support.file_server import FileServer, Handler
from support.pictures import collection, jpeg, tar, write_tar_of_tars
from support.preparation import (
    dataset_of,
    finish,
    killed_at,
    prepare,
    refused,
    run_index,
    start,
    visible,
)
from support.remote_preparation import files_on_server, prepare_fetched, write_secret
from support.sentences import assert_says

IMAGES = collection({f"n{number:02}": 6 for number in range(4)})
DATASET = ("--validation-per-class", "1", "--shards", "2")
BLOCK = 4096
CONTENT = bytes(range(256)) * 401
SMALL_BLOCKS = f"from imagenet_workloads.prepare import fetch\nfetch.BLOCK = {BLOCK}"
COMPRESSIONS = (bz2.compress, gzip.compress, lzma.compress, zstandard.compress)
PROBES = 64
"""Bytes that each try reads to learn the size and the format of a file."""


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({"/x.tar": CONTENT}).running() as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "BLOCK", BLOCK)


def options(
    server: FileServer, cache: Path, *more: str, name: str = "x.tar", **attributes: str
) -> list[str]:
    files = files_on_server(server.url, name, **attributes)
    return [*files, "--cache", str(cache), *more]


def content(server: FileServer, cache: Path, name: str = "x.tar") -> bytes:
    file = cache_entry(cache, name, f"{server.url}/{name}").open()
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def sealed_images(dataset: Path) -> int:
    sealed = read_dataset(dataset)
    return sealed.train.images + sealed.validation.images


def names(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def failed(capfd: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Run imagenet-fetch, which must end with this exit code; return what it says."""
    assert fetch.main(arguments) == code
    return capfd.readouterr().err


def process(server: FileServer, cache: Path, *more: str) -> subprocess.Popen[str]:
    return start("fetch", *options(server, cache, *more), hook=SMALL_BLOCKS)


def test_it_is_the_same_dataset_as_from_a_volume(cache: Path, tmp_path: Path) -> None:
    archive = write_tar_of_tars(tmp_path / "train.tar", IMAGES)
    (tmp_path / "val.tar").write_bytes(tar({f"v{n}.JPEG": jpeg(n) for n in range(4)}))
    (tmp_path / "labels.txt").write_text("".join(f"n{number:02}\n" for number in range(4)))
    local = prepare(
        archive, tmp_path / "local", "--validation-source", str(tmp_path / "val.tar"),
        "--validation-labels", str(tmp_path / "labels.txt"),
    )  # fmt: skip
    served = ("train.tar", "val.tar", "labels.txt")
    with FileServer({f"/{one}": (tmp_path / one).read_bytes() for one in served}).running() as on:
        reading = files_on_server(on.url, *served)
        reading += ["--http-validation", "val.tar"]
        labels = ("--http-labels", "labels.txt")
        assert fetch.main([*reading, *labels, "--cache", str(cache)]) == 0
        on.knows_ranges = False
        remote = prepare_fetched(cache, tmp_path / "remote", reading, *labels)
    assert remote.name == local.name
    assert (remote / "dataset.json").read_bytes() == (local / "dataset.json").read_bytes()


def test_index_and_pack_send_no_request_and_need_no_secret(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_tar_of_tars(tmp_path / "train.tar", IMAGES)
    with FileServer({"/x.tar?sig=x": archive.read_bytes()}).running() as server:
        reading = options(server, cache, queryKey="link")
        with monkeypatch.context() as patched:
            secret = write_secret(tmp_path / "secret", link="sig=x")
            patched.setenv("IMAGENET_CREDENTIALS", str(secret))
            assert fetch.main(reading) == 0
        before = len(server.requests)
        assert index.main([*reading, "--data", str(tmp_path / "data"), *DATASET]) == 0
        assert len(server.requests) == before


@pytest.mark.parametrize("connections", [1, 4])
def test_a_kill_at_any_byte_costs_at_most_the_blocks_in_flight(
    connections: int, server: FileServer, cache: Path
) -> None:
    for request in (0, 2, 6, 9):
        begun: SimpleQueue[int] = SimpleQueue()

        def kill(handler: Handler, begun: SimpleQueue[int] = begun) -> None:
            """Send a part of a block to a process, and kill it."""
            handler.wfile.write(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 4096\r\n\r\nx")
            handler.wfile.flush()
            # It may ask before the test knows its process.
            os.kill(begun.get(), signal.SIGKILL)
            handler.close_connection = True

        server.faults.extend([None] * request)
        server.faults.append(kill)
        killed = process(server, cache, f"--connections={connections}")
        begun.put(killed.pid)
        code, _, errors = finish(killed)
        assert code == -signal.SIGKILL, errors
        server.faults.clear()
        assert visible(cache) == {}
    code, output, errors = finish(process(server, cache, f"--connections={connections}"))
    assert code == 0, errors
    assert output == f'{{"bytes": {len(CONTENT)}, "totalBytes": {len(CONTENT)}}}\n'
    assert content(server, cache) == CONTENT
    assert server.sent <= len(CONTENT) + 4 * connections * BLOCK + 5 * PROBES
    assert len(names(cache)) == 2, "no temporary file is left"


@pytest.mark.costly
def test_a_kill_between_two_changes_of_the_volume_fetches_no_block_again(
    server: FileServer, cache: Path
) -> None:
    content_of_tar = gzip.compress(CONTENT)
    server.content["/x.tar"] = content_of_tar
    tries, alive = 0, True
    while alive:
        tries += 1
        alive = killed_at(tries, "fetch", *options(server, cache))
        with suppress(Exception):
            assert content(server, cache) == CONTENT
    assert content(server, cache) == CONTENT
    assert tries > 4
    assert server.sent <= 2 * len(content_of_tar) + (tries + 1) * PROBES
    assert len(visible(cache)) == 2
    assert not [name for name in names(cache) if name.startswith(".x.tar")]


def test_sigterm_ends_it_at_once(server: FileServer, cache: Path) -> None:
    begun: SimpleQueue[int] = SimpleQueue()

    def end(handler: Handler) -> None:
        os.kill(begun.get(), signal.SIGTERM)
        # The process would wait for so long.
        handler.refuse(HTTPStatus.SERVICE_UNAVAILABLE, Retry_After="300")

    server.faults.extend([None, None, end])
    running = process(server, cache)
    begun.put(running.pid)
    assert finish(running)[0] == 143


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_checksum_is_compared_once(
    algorithm: str, server: FileServer, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    right = hashlib.new(algorithm, CONTENT, usedforsecurity=False).hexdigest()
    wrong = f"{algorithm}:{'0' * len(right)}"
    said = failed(capfd, 3, *options(server, cache, checksum=wrong))
    assert f"/x.tar: has the {algorithm} {right} in place of 000" in said
    assert "upload the file again, or correct its checksum" in said
    assert names(cache) == []
    checked = options(server, cache, checksum=f"{algorithm}:{right}")
    assert fetch.main(checked) == 0
    before = len(server.requests)
    assert fetch.main(checked) == 0
    assert len(server.requests) == before, "the checksum says that it is the same file"
    assert fetch.main(options(server, cache)) == 0
    assert content(server, cache) == CONTENT


def test_a_file_that_changes_between_two_tries_is_fetched_as_a_whole(
    server: FileServer, cache: Path
) -> None:
    other = bytes(reversed(CONTENT))
    refuse: Callable[[Handler], None] = lambda handler: handler.refuse(HTTPStatus.FORBIDDEN)  # noqa: E731
    server.faults.extend([*[None] * 6, *[refuse] * 9])
    assert fetch.main(options(server, cache, "--connections", "1")) == 3
    server.faults.clear()
    server.content["/x.tar"] = other
    assert fetch.main(options(server, cache)) == 0
    assert content(server, cache) == other
    server.content["/x.tar"] = CONTENT
    assert fetch.main(options(server, cache)) == 0
    assert content(server, cache) == CONTENT
    assert len(names(cache)) == 2, "the former file is gone"


def test_a_newer_version_takes_nothing_from_a_job_that_reads_the_former(
    server: FileServer, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(count: int) -> bytes:
        images = collection({f"n{number:02}": count for number in range(4)})
        return write_tar_of_tars(tmp_path / f"{count}.tar", images).read_bytes()

    def contents() -> int:
        return len([name for name in names(cache) if name.endswith("-x.tar")])

    reading, before = options(server, cache), tmp_path / "before"
    server.content["/x.tar"] = version(6)
    monkeypatch.setenv("IMAGENET_JOB_UID", "first")
    assert fetch.main(reading) == 0
    key = run_index(None, before, *reading, *DATASET)["key"]
    server.content["/x.tar"] = version(7)
    monkeypatch.setenv("IMAGENET_JOB_UID", "second")
    after = prepare_fetched(cache, tmp_path / "after", reading[:-2], *DATASET)
    assert sealed_images(after) == 4 * 7
    monkeypatch.setenv("IMAGENET_JOB_UID", "first")
    assert pack.main([*reading, "--data", str(before), "--key", key]) == 0
    assert seal.main(["--data", str(before), "--key", key]) == 0
    assert sealed_images(dataset_of(before, key)) == 4 * 6
    assert contents() == 2
    # The first job asks again: it wants the version of now, and nobody reads the former.
    assert fetch.main(reading) == 0
    assert contents() == 1


def test_the_version_of_a_job_that_is_long_over_goes(
    server: FileServer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAGENET_JOB_UID", "first")
    assert fetch.main(options(server, cache)) == 0
    (record,) = cache.rglob("fetched-first.json")
    age = record.stat().st_mtime - ABANDONED_SECONDS - 60
    os.utime(record, (age, age))
    monkeypatch.setenv("IMAGENET_JOB_UID", "second")
    server.content["/x.tar"] = bytes(reversed(CONTENT))
    assert fetch.main(options(server, cache)) == 0
    assert [name.partition("-")[2] for name in names(cache)] == ["x.tar", "second.json", ""]


def test_a_file_that_changes_meanwhile_is_for_the_next_try(
    server: FileServer, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def change(handler: Handler) -> None:
        server.content["/x.tar"] = b"new" * BLOCK
        handler.serve()

    server.faults.extend([None, None, None, change])
    said = failed(capfd, 1, *options(server, cache, "--connections", "1"))
    assert_says(said, "/x.tar: ", "has changed while", "next try fetches the new file")
    assert fetch.main(options(server, cache)) == 0
    assert content(server, cache) == b"new" * BLOCK


def test_the_bytes_that_a_volume_lacks_are_said_before_anything_is_fetched(
    server: FileServer,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda _: 50 << 10)
    said = failed(capfd, 3, *options(server, cache))
    assert f"the fetch of {len(CONTENT)} bytes needs about 100.2 KiB, and 50.0 KiB are free" in said
    assert "enlarge the claim of cache" in said
    assert server.sent <= PROBES


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_volume_that_becomes_full_names_the_bytes_that_are_left(
    knows_ranges: bool, server: FileServer, cache: Path
) -> None:
    server.knows_ranges = knows_ranges
    # A volume of 10 blocks: what lies beyond cannot be written.
    hook = f"""{SMALL_BLOCKS}
import errno, os
real = os.pwrite
def pwrite(file, data, offset):
    if offset >= {10 * BLOCK}:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return real(file, data, offset)
os.pwrite = pwrite
"""
    if not knows_ranges:
        hook = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({10 * BLOCK},) * 2)"
    one = start("fetch", *options(server, cache, "--connections", "1"), hook=hook)
    code, _, errors = finish(one)
    assert code == 3, errors
    left = len(CONTENT) - 10 * BLOCK if knows_ranges else len(CONTENT)
    assert_says(errors, f": {left} more bytes", "enlarge the claim of cache")


def test_a_server_without_ranges_sends_it_over_one_connection(
    server: FileServer, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.knows_ranges = False

    def cut_off(handler: Handler) -> None:
        handler.answer(HTTPStatus.OK, CONTENT[:1000], {}, lacks=len(CONTENT) - 1000)

    retry: Callable[[Handler], None] = lambda handler: handler.refuse(  # noqa: E731
        HTTPStatus.SERVICE_UNAVAILABLE, Retry_After="0"
    )
    server.faults.extend([None, retry, cut_off])
    assert fetch.main(options(server, cache)) == 0
    assert content(server, cache) == CONTENT
    before = server.sent
    assert fetch.main(options(server, cache)) == 0
    assert server.sent - before <= len(CONTENT), "only its version is asked for"
    said = refused(capfd, *options(server, cache)[:2], "--data", cache / "data")
    assert_says(said, "does not answer", "ranges of bytes", "write source.http.cache")


def test_a_server_may_give_neither_ranges_nor_size(server: FileServer, cache: Path) -> None:
    def send_until_the_end(handler: Handler) -> None:
        handler.send_response(HTTPStatus.OK)
        handler.send_header("ETag", '"1"')
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(CONTENT)

    server.faults.extend([send_until_the_end] * 3)
    assert fetch.main(options(server, cache)) == 0
    assert content(server, cache) == CONTENT
    assert fetch.main(options(server, cache)) == 0
    assert len(server.requests) == 3, "the second run asks for the version alone"


def test_it_waits_as_long_as_the_server_asks(
    server: FileServer, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    busy: Callable[[Handler], None] = lambda handler: handler.refuse(  # noqa: E731
        HTTPStatus.TOO_MANY_REQUESTS, Retry_After="0"
    )
    server.faults.extend([busy] * 7)
    assert fetch.main(options(server, cache)) == 0
    assert "429 Too Many Requests; next try in 0.0 s" in caplog.text
    assert content(server, cache) == CONTENT


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_compressed_archive_is_decompressed_once(
    compress: Callable[[bytes], bytes],
    cache: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    archive = write_tar_of_tars(tmp_path / "train.tar", IMAGES)
    local = prepare(archive, tmp_path / "local", *DATASET)
    with FileServer({"/x.tar": compress(archive.read_bytes())}).running() as server:
        reading = options(server, cache)
        said = refused(capfd, *reading[:2], "--data", tmp_path / "data")
        assert_says(said, "cannot be read in place", "write source.http.cache")
        remote = prepare_fetched(cache, tmp_path / "data", reading[:2], *DATASET)
        assert content(server, cache) == archive.read_bytes()
    assert (remote / "dataset.json").read_bytes() == (local / "dataset.json").read_bytes()


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_compressed_archive_that_is_cut_off_is_an_error(
    compress: Callable[[bytes], bytes],
    server: FileServer,
    cache: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server.content["/x.tar"] = compress(CONTENT)[:-20]
    said = failed(capfd, 3, *options(server, cache))
    assert "does not decompress" in said
    assert visible(cache) == {}


def test_an_archive_may_have_several_frames(server: FileServer, cache: Path) -> None:
    server.content["/x.tar"] = zstandard.compress(CONTENT) * 2
    assert fetch.main(options(server, cache)) == 0
    assert content(server, cache) == CONTENT * 2


def test_a_file_that_is_not_fetched_is_an_error(
    server: FileServer, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = refused(capfd, *options(server, cache), "--data", cache / "data")
    assert f"/x.tar: is not in the cache ({cache}" in said
    assert "run imagenet-fetch first" in said
    assert server.requests == []


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        (["--cache", "c"], "give either --http-files or --s3-bucket"),
        (files_on_server("http://h", "x"), "the following arguments are required: --cache"),
        (["--cache", "c", "--s3-bucket=b", "--s3-key=k", "--s3-checksum=0"], "neither sha256:DIG"),
    ],
)
def test_a_mistake_in_the_options(
    arguments: list[str], mistake: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        fetch.main(arguments)
    assert mistake in capfd.readouterr().err


def test_a_cache_is_for_files_of_a_server(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        index.main(["--source", "x", "--data", "d", "--cache", "c"])
    assert_says(capfd.readouterr().err, "error: --cache", "a server", "a bucket")


def test_a_journal_of_a_crashed_node_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    path, version = tmp_path / ".x.tmp-u", {"etag": "1"}
    first = fetching.PartialFile(path, version, 3 * BLOCK)
    first.write(1, b"1" * BLOCK)
    first.close()
    with fetching.journal_of(path).open("ab") as journal:
        journal.write(b"\0\0\n7\n2")
    second = fetching.PartialFile(path, version, 3 * BLOCK)
    assert (second.missing(), second.present) == ([0, 2], BLOCK)
    second.write(2, b"2" * BLOCK)
    second.close()
    third = fetching.PartialFile(path, version, 3 * BLOCK)
    assert third.missing() == [0]
    third.close()
    assert errno.ENOSPC in NO_ROOM

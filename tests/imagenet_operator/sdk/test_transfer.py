"""Transfers by a real imagenet-door: whole, cut, killed, changed, and with a hostile other end."""

import asyncio
import functools
import hashlib
import json
import os
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from imagenet_operator.sdk import door_requests, transfer
from imagenet_operator.sdk.door_requests import Door, TransferError
from imagenet_operator.sdk.interface import Progress, Transferred
from imagenet_operator.sdk.transfer import download, names, read, upload
from imagenet_spec import door as requests
from imagenet_spec import tree
from imagenet_spec.tree import FileError, Tree
from support.asynchronous import asynchronous
from support.doors import QUICK, DoorProcess, Way, client_of, door_process
from support.loopback import free_port
from support.sentences import assert_says

LARGE = 20 << 20
ONE_PIECE = requests.PIECE_BYTES + (2 << 20)
"""When this is done of the large file, the door has a piece of it."""
NAMES = ("Müller/1 %+&=#?.jpg", "图片/😀.png", "a/b/c/deep", ".hidden")


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    folder = tmp_path / "claim"
    folder.mkdir()
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Small files, an empty one, and one that is sent in parts."""
    folder = tmp_path / "source"
    for name in NAMES:
        put(folder / name, name.encode() * 100)
    put(folder / "empty", b"")
    put(folder / "large", os.urandom(LARGE))
    return folder


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def files_below(folder: Path) -> dict[str, bytes]:
    """What is below a folder, partial files too."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def arrived_of(name: str, folder: Path) -> int:
    """The bytes of a file that is not whole; others may arrive, and get their names, meanwhile."""
    with Tree(folder) as files:
        return files.size(name, is_partial=True) or 0


@asynchronous
async def test_a_folder_goes_there_and_comes_back(
    claim: Path, source: Path, tmp_path: Path
) -> None:
    (source / "no files" / "below").mkdir(parents=True)
    (source / "link").symlink_to("large")
    sent = files_below(source)
    del sent["link"]
    size = sum(map(len, sent.values()))
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            first = await upload(door, source, "photographs/new")
            assert first == Transferred(len(sent), size, 0, (("link", "is a link"),))
            again = await upload(door, source, "photographs/new")
            assert again == Transferred(0, 0, len(sent), (("link", "is a link"),))
            back = await download(door, "photographs", tmp_path / "back")
            assert back == Transferred(len(sent), size, 0)
            put(tmp_path / "back/new/empty", b"x")
            put(tmp_path / "back/new/.hidden", b"X" * len(sent[".hidden"]))
            repaired = await download(door, "photographs", tmp_path / "back")
            assert (repaired.files, repaired.unchanged) == (2, len(sent) - 2)
    assert files_below(claim / "photographs" / "new") == sent
    assert files_below(tmp_path / "back" / "new") == sent
    # Folders without files are not made.
    assert not (claim / "photographs" / "new" / "no files").exists()


@asynchronous
async def test_one_file_keeps_its_name(claim: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "photographs.tar").symlink_to(source / "large")
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            assert (await upload(door, tmp_path / "photographs.tar", "in")).files == 1
            assert (await upload(door, tmp_path / "photographs.tar", "in")).unchanged == 1
            assert (await upload(door, source / "empty", "")).files == 1
            await download(door, "in/photographs.tar", tmp_path / "back")
            await download(door, "empty", tmp_path / "back")
            assert await read(door, "empty") == b""
            assert await names(door, "in") == ["photographs.tar"]
            assert await names(door, "none") == []
    content = (source / "large").read_bytes()
    assert files_below(claim) == {"in/photographs.tar": content, "empty": b""}
    assert files_below(tmp_path / "back") == {"photographs.tar": content, "empty": b""}


@asynchronous
async def test_only_wanted_files_are_fetched(claim: Path, source: Path, tmp_path: Path) -> None:
    with door_process(source) as process:
        async with client_of(process.port) as door:
            await download(door, "", tmp_path / "back", wanted=lambda name: name[0] in "Me")
    assert files_below(tmp_path / "back").keys() == {NAMES[0], "empty"}


@asynchronous
async def test_progress_rises_to_all(claim: Path, source: Path, tmp_path: Path) -> None:
    sent = files_below(source)
    size = sum(map(len, sent.values()))
    seen: list[Progress] = []
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            for _ in range(2):
                for work in (
                    upload(door, source, "in", progress=seen.append),
                    download(door, "in", tmp_path / "back", progress=seen.append),
                ):
                    seen.clear()
                    await work
                    assert seen[0] == Progress(0, len(sent), 0, size)
                    assert seen[-1] == Progress(len(sent), len(sent), size, size)
                    assert [one.bytes for one in seen] == sorted(one.bytes for one in seen)


@asynchronous
async def test_cut_connections_are_opened_again(claim: Path, source: Path, tmp_path: Path) -> None:
    """Each connection is cut after 10 MB, which is less than a piece of an upload."""
    sent = files_below(source)
    said: list[str] = []
    policy = replace(QUICK, say=said.append)
    with door_process(claim, "--writable") as process:
        up = Way(process.port, cut_after=10_000_000, most_cuts=3)
        async with up.port() as port, client_of(port) as door:
            await upload(door, source, "in", policy=policy)
        down = Way(process.port, cut_after=10_000_000)
        async with down.port() as port, client_of(port) as door:
            fetched = await download(door, "in", tmp_path / "back", policy=policy)
    assert up.cuts == 3
    assert down.cuts >= 2
    assert said
    assert files_below(claim / "in") == files_below(tmp_path / "back") == sent
    # What had arrived was not sent again.
    assert fetched.bytes == sum(map(len, sent.values()))


@asynchronous
async def test_answers_and_bodies_may_arrive_in_any_pieces(
    claim: Path, source: Path, tmp_path: Path
) -> None:
    put(source / "large", os.urandom(requests.SMALL_BYTES + 1))
    with door_process(claim, "--writable") as process:
        async with Way(process.port, most_at_once=991).port() as port, client_of(port) as door:
            await upload(door, source, "", policy=QUICK)
            await download(door, "", tmp_path / "back", policy=QUICK)
            assert (await upload(door, source, "")).files == 0
    assert files_below(claim) == files_below(tmp_path / "back") == files_below(source)


class StoppedError(Exception):
    """What a test ends a transfer with."""


def once_at(size: int, act: Callable[[], object]) -> Callable[[Progress], None]:
    """Act when so many bytes are done."""
    left = [act]

    def progress(progress: Progress) -> None:
        if progress.bytes >= size and left:
            left.pop()()

    return progress


def interrupt() -> None:
    raise StoppedError


@pytest.mark.parametrize("is_cancelled", [False, True])
@asynchronous
async def test_a_second_call_goes_on_where_the_first_was_stopped(
    claim: Path, source: Path, tmp_path: Path, is_cancelled: bool
) -> None:
    sent = files_below(source)
    size = sum(map(len, sent.values()))

    async def stopped(at: int, work: Callable[..., Coroutine[Any, Any, object]]) -> None:
        stop = (lambda: task.cancel()) if is_cancelled else interrupt
        task: asyncio.Task[object] = asyncio.create_task(work(progress=once_at(at, stop)))
        with pytest.raises(asyncio.CancelledError if is_cancelled else StoppedError):
            await task

    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            await stopped(ONE_PIECE, functools.partial(upload, door, source, ""))
            assert not (claim / "large").exists()
            assert arrived_of("large", claim) >= requests.PIECE_BYTES
            rest = await upload(door, source, "", policy=QUICK)
            assert rest.bytes <= size - requests.PIECE_BYTES
            back = tmp_path / "back"
            await stopped(LARGE // 2, functools.partial(download, door, "", back))
            assert not (back / "large").exists()
            arrived = arrived_of("large", back)
            assert arrived > LARGE // 3
            assert (await download(door, "", back)).bytes <= size - arrived
    assert files_below(claim) == files_below(back) == sent


@pytest.mark.parametrize("is_upload", [False, True])
@asynchronous
async def test_an_interrupt_does_not_wait_until_a_large_file_is_hashed(
    claim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_upload: bool
) -> None:
    size = 1 << 28
    here = tmp_path / "here"
    here.mkdir()
    for folder in (claim, here):
        with (folder / "large").open("wb") as file:
            file.truncate(size)
    hashed = 0
    loop = asyncio.get_running_loop()

    def read_hash(*arguments: Any) -> Any:
        nonlocal hashed
        loop.call_soon_threadsafe(task.cancel)
        found = tree.read_hash(*arguments)
        hashed += found[0]
        return found

    monkeypatch.setattr(transfer, "read_hash", read_hash)
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            work = upload(door, here, "") if is_upload else download(door, "", here)
            task: asyncio.Task[object] = asyncio.create_task(work)
            with pytest.raises(asyncio.CancelledError):
                await task
    assert 0 < hashed < size


@asynchronous
async def test_a_door_that_is_killed_and_started_again_ends_no_transfer(
    claim: Path, source: Path, tmp_path: Path
) -> None:
    # The kernel gives it to nobody while no door listens.
    doors = [DoorProcess(claim, "--writable", port=free_port())]
    port = doors[0].port

    def start_again() -> None:
        doors[-1].kill()
        doors.append(DoorProcess(claim, "--writable", port=port))

    try:
        async with client_of(port) as door:
            again = once_at(LARGE // 2, start_again)
            await upload(door, source, "", policy=QUICK, progress=again)
            again = once_at(LARGE // 2, start_again)
            await download(door, "", tmp_path / "back", policy=QUICK, progress=again)
    finally:
        doors[-1].kill()
    assert len(doors) == 3
    assert files_below(source) == files_below(claim) == files_below(tmp_path / "back")


@asynchronous
async def test_a_partial_file_of_other_content_is_not_gone_on_with(
    claim: Path, source: Path, tmp_path: Path
) -> None:
    large, size = source / "large", LARGE - 1
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            with pytest.raises(StoppedError):
                await upload(door, large, "", progress=once_at(ONE_PIECE, interrupt))
            put(large, os.urandom(size))
            # All of it is sent, and once.
            assert (await upload(door, large, "", policy=QUICK)).bytes == size
            stop = once_at(LARGE // 2, interrupt)
            with pytest.raises(StoppedError):
                await download(door, "large", tmp_path / "back", progress=stop)
            put(claim / "large", os.urandom(size))
            assert (await download(door, "large", tmp_path / "back")).bytes == size
    assert (tmp_path / "back/large").read_bytes() == (claim / "large").read_bytes()


@asynchronous
async def test_a_file_that_changes_once_is_sent_as_it_is_then(claim: Path, source: Path) -> None:
    new = os.urandom(LARGE + 1)
    change = once_at(LARGE // 2, lambda: put(source / "large", new))
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            await upload(door, source, "", policy=QUICK, progress=change)
    assert files_below(claim) == files_below(source)
    assert (claim / "large").read_bytes() == new


@asynchronous
async def test_a_file_that_never_rests_is_refused(claim: Path, source: Path) -> None:
    def change(progress: Progress) -> None:
        if progress.bytes >= LARGE // 2:
            with (source / "large").open("ab") as file:
                file.write(b"x")

    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            with pytest.raises(TransferError) as refused:
                await upload(door, source / "large", "", policy=QUICK, progress=change)
    assert_says(str(refused.value), "large", "changes")
    assert not (claim / "large").exists()


@asynchronous
async def test_a_file_that_is_replaced_or_grows_while_it_is_fetched(
    claim: Path, source: Path, tmp_path: Path
) -> None:
    def replace_it() -> None:
        put(source / "new", os.urandom(LARGE))
        (source / "new").rename(source / "large")

    def grow() -> None:
        with (source / "large").open("ab") as file:
            file.write(b"x" * 100)

    with door_process(source) as process:
        async with client_of(process.port) as door:
            progress = once_at(LARGE // 2, replace_it)
            await download(door, "large", tmp_path / "back", progress=progress)
            assert (tmp_path / "back/large").read_bytes() == (source / "large").read_bytes()
            await download(door, "large", tmp_path / "other", progress=once_at(LARGE // 2, grow))
            # As it was when it was listed.
            assert (tmp_path / "other/large").read_bytes() + b"x" * 100 == (
                source / "large"
            ).read_bytes()


@pytest.mark.parametrize("name", ["empty", "large"])
@pytest.mark.parametrize("is_there", [False, True])
@asynchronous
async def test_a_file_with_another_sum_than_the_model_says_is_refused(
    source: Path, tmp_path: Path, name: str, is_there: bool
) -> None:
    if is_there:
        put(tmp_path / "back" / name, (source / name).read_bytes())
    before = files_below(tmp_path / "back")
    with door_process(source) as process:
        async with client_of(process.port) as door:
            with pytest.raises(TransferError) as refused:
                await download(door, name, tmp_path / "back", sums={name: sha256(b"other")})
            assert refused.value.reason == "WrongSum"
            assert_says(str(refused.value), name, sha256(b"other"))
            assert files_below(tmp_path / "back") == before
            sums = {name: sha256((source / name).read_bytes())}
            await download(door, name, tmp_path / "back", sums=sums)
            with pytest.raises(TransferError) as refused:
                await download(door, name, tmp_path / "back", sums={"weights": sha256(b"")})
            assert_says(str(refused.value), "weights")


@asynchronous
async def test_a_read_only_door_is_sent_nothing(claim: Path, source: Path) -> None:
    with door_process(claim) as process:
        async with client_of(process.port) as door:
            with pytest.raises(TransferError) as refused:
                await upload(door, source, "")
    assert refused.value.reason == "ReadOnly"
    assert files_below(claim) == {}


@asynchronous
async def test_too_large_an_upload_is_refused_before_it_begins(claim: Path, source: Path) -> None:
    with (source / "sparse").open("wb") as file:
        file.truncate(1 << 43)
    needed = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            with pytest.raises(TransferError) as refused:
                await upload(door, source, "")
    assert refused.value.reason == "Full"
    assert_says(str(refused.value), str(needed))
    assert files_below(claim) == {}


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """A full disk, for this process: no file becomes larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@asynchronous
async def test_a_full_disk_is_an_error_that_leaves_what_has_arrived(
    claim: Path, source: Path, tmp_path: Path
) -> None:
    with door_process(claim, "--writable", most_file_bytes=LARGE // 2) as process:
        async with client_of(process.port) as door:
            with pytest.raises(TransferError) as refused:
                await upload(door, source / "large", "")
            assert refused.value.reason == "Full"
            assert_says(str(refused.value), "large")
    assert not (claim / "large").exists()
    with door_process(source) as process:
        async with client_of(process.port) as door:
            with no_file_above(LARGE // 2), pytest.raises(FileError) as full:
                await download(door, "large", tmp_path / "back")
            assert full.value.reason == "Full"
            assert_says(str(full.value), "large")
            assert arrived_of("large", tmp_path / "back") == LARGE // 2
            assert (await download(door, "large", tmp_path / "back")).bytes == LARGE // 2


@asynchronous
async def test_two_uploads_of_one_file_take_turns(claim: Path, source: Path) -> None:
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            both = [upload(door, source, "", policy=QUICK) for _ in range(2)]
            await asyncio.gather(*both)
    assert files_below(claim) == files_below(source)


@asynchronous
async def test_no_answer_for_too_long_is_an_error(claim: Path, source: Path) -> None:
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            process.kill()
            policy = replace(QUICK, outage_seconds=0)
            for work in (
                upload(door, source, "", policy=policy),
                download(door, "", source, policy=policy),
                read(door, "x", policy=policy),
            ):
                with pytest.raises(TransferError) as lost:
                    await work
                assert lost.value.reason is None


@pytest.mark.parametrize("there", ["link", "folder", "pipe", "link above"])
@asynchronous
async def test_what_has_the_name_of_a_file_already_is_neither_followed_nor_replaced(
    claim: Path, tmp_path: Path, there: str
) -> None:
    put(tmp_path / "outside", b"secret")
    put(claim / "a/b", b"xecret")
    place = tmp_path / "back" / "a" / "b"
    place.parent.mkdir(parents=True)
    if there == "link":
        place.symlink_to(tmp_path / "outside")
    elif there == "folder":
        place.mkdir()
    elif there == "pipe":
        os.mkfifo(place)
    else:
        place.parent.rmdir()
        place.parent.symlink_to(tmp_path)
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            with pytest.raises(FileError) as refused:
                await download(door, "", tmp_path / "back")
            assert_says(str(refused.value), "a/b")
            with pytest.raises(TransferError) as unsent:
                await upload(door, claim / "a/b", "a/b")
            assert_says(str(unsent.value), "a/b")
    assert (tmp_path / "outside").read_bytes() == b"secret"
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("path", ["../out", "/out", "a\\b", "a//b"])
@asynchronous
async def test_names_that_lead_out_are_refused_before_anything_is_sent(
    claim: Path, source: Path, tmp_path: Path, path: str
) -> None:
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            with pytest.raises(FileError):
                await upload(door, source, path)
            with pytest.raises(TransferError):
                await download(door, path, tmp_path / "back")
    assert not (tmp_path / "out").exists()


@asynchronous
async def test_a_source_that_is_no_file_is_an_error(claim: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with door_process(claim, "--writable") as process:
        async with client_of(process.port) as door:
            for name in ("pipe", "missing"):
                with pytest.raises(FileError) as refused:
                    await upload(door, tmp_path / name, "")
                assert_says(str(refused.value), name)


# A door that is not ours: whatever it answers, nothing is written outside of the target.

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def hostile_door(answers: Mapping[str, Handler]) -> AsyncIterator[Door]:
    app = web.Application(client_max_size=1 << 30)
    for path, answer in answers.items():
        app.router.add_route("*", path, answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    try:
        async with client_of(site._server.sockets[0].getsockname()[1]) as door:  # type: ignore[attr-defined]
            yield door
    finally:
        await runner.cleanup()


def answer(body: bytes, status: int = 200, **headers: str) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, status=status, headers=headers)

    return handle


def lines(*documents: object) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def listing(*files: tuple[str, object]) -> bytes:
    listed = [{"path": path, "size": size} for path, size in files]
    return lines(*listed, {"end": True})


def frame(path: str, content: bytes, **other: object) -> bytes:
    head = {"path": path, "size": len(content), "sha256": sha256(content), **other}
    return lines(head) + content


HOSTILE_NAMES = (
    "/etc/x", "../x", "a/../../x", "in/../../x", "..", ".", "", "in/", "in//x", "in/..\\x",
    "in/C:\\x", "in/x\0", "in/x\ny", "in/x\x1b[2J", "in/\udcff", "in/" + "n" * 256,
    "in/" + "/".join(["a" * 200] * 21), "out/x", "inx",
    "in/.imagenet-part-" + "0" * 32,
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
@asynchronous
async def test_a_hostile_name_is_refused_before_anything_is_written(
    tmp_path: Path, name: str
) -> None:
    answers = {
        requests.FILES: answer(listing(("in/good", 1), (name, 1))),
        requests.READ: answer(frame("in/good", b"x") + frame(name, b"x")),
    }
    async with hostile_door(answers) as door:
        with pytest.raises(TransferError) as refused:
            await download(door, "in", tmp_path / "back" / "to", policy=QUICK)
    assert refused.value.reason == "Invalid"
    assert str(refused.value).isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "listed",
    [
        [("a", 1), ("a/b", 1)],
        [("a/b/c/d", 1), ("a/b", 1)],
        [("a", 1), ("a", 2)],
        [("a", -1)],
        [("a", "1")],
        [("a", True)],
        [("a", 1e9)],
    ],
    ids=str,
)
@asynchronous
async def test_a_listing_that_contradicts_itself_is_refused(
    tmp_path: Path, listed: list[tuple[str, object]]
) -> None:
    async with hostile_door({requests.FILES: answer(listing(*listed))}) as door:
        with pytest.raises(TransferError) as refused:
            await download(door, "", tmp_path / "back", policy=QUICK)
    assert refused.value.reason == "Invalid"
    assert list(tmp_path.iterdir()) == []


SMALL, BIG = b"0123456789", b"x" * (requests.SMALL_BYTES + 1)
DEEP = b"[" * 20_000 + b"\n"


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (requests.FILES, answer(b"no JSON\n")),
        (requests.FILES, answer(b"[]\n")),
        (requests.FILES, answer(DEEP)),
        (requests.FILES, answer(b"x" * 1_000_000)),
        (requests.FILES, answer(lines({"path": "a"}))),
        (requests.FILES, answer(b"", 302, Location="http://127.0.0.1:1/")),
        (requests.FILES, answer(b"\xff" * 100_000, 500)),
        (requests.FILES, answer(lines({"error": "\x1b[2J" * 1000, "reason": "\n"}), 400)),
        (requests.READ, answer(frame("other", SMALL))),
        (requests.READ, answer(frame("small", SMALL, sha256=sha256(b"")))),
        (requests.READ, answer(frame("small", SMALL, size=1 << 40))),
        (requests.READ, answer(lines({"error": [1], "reason": []}))),
        (requests.FILE, answer(BIG + b"y")),
        (requests.FILE, answer(BIG[1:])),
        (requests.FILE, answer(b"", 206)),
        (requests.FILE, answer(b"y" * len(BIG))),
        (requests.SUMS, answer(lines({"size": 1, "sha256": 1}))),
        (requests.SUMS, answer(lines({"size": len(BIG), "sha256": sha256(b"")}))),
    ],
)  # fmt: skip
@asynchronous
async def test_a_wrong_answer_is_an_error_and_no_file(
    tmp_path: Path, path: str, wrong: Handler
) -> None:
    answers = {
        requests.FILES: answer(listing(("small", len(SMALL)), ("big", len(BIG)))),
        requests.READ: answer(frame("small", SMALL)),
        requests.FILE: answer(BIG),
        requests.SUMS: answer(lines({"size": len(BIG), "sha256": sha256(BIG)})),
    }
    async with hostile_door(answers) as door:
        fetched = await download(door, "", tmp_path / "good", policy=QUICK)
        assert fetched.files == 2
    async with hostile_door({**answers, path: wrong}) as door:
        with pytest.raises(TransferError) as refused:
            await download(door, "", tmp_path / "back", policy=replace(QUICK, outage_seconds=0))
    assert len(str(refused.value)) < 1000
    assert str(refused.value).isprintable()
    whole = {name: (tmp_path / "good" / name).read_bytes() for name in ("small", "big")}
    left = {path.name: path.read_bytes() for path in (tmp_path / "back").glob("[!.]*")}
    assert left.items() < whole.items()


@asynchronous
async def test_a_door_that_sends_more_than_it_lists_is_stopped(tmp_path: Path) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(BIG)
        return response

    answers = {
        requests.FILES: answer(listing(("big", len(BIG)))),
        requests.FILE: endless,
    }
    async with hostile_door(answers) as door:
        with pytest.raises(TransferError) as refused:
            await download(door, "", tmp_path, policy=QUICK)
    assert refused.value.reason == "Invalid"
    assert arrived_of("big", tmp_path) <= len(BIG)


@asynchronous
async def test_a_door_that_says_it_has_what_it_has_not_is_not_believed(
    source: Path, tmp_path: Path
) -> None:
    answers = {
        requests.VOLUME: answer(lines({"writable": True, "free": 1 << 60})),
        requests.FILES: answer(lines({"end": True})),
        requests.WRITE: answer(lines({"written": 5})),
        requests.PARTIAL: answer(lines({"received": 1 << 50})),
        requests.SUMS: answer(lines({"path": "large", "size": 1, "sha256": "0"})),
        requests.FINISH: answer(b"\n\n" + lines({"sha256": sha256(b"")})),
    }
    async with hostile_door(answers) as door:
        with pytest.raises(TransferError):
            await upload(door, source, "", policy=QUICK)


@asynchronous
async def test_what_a_cut_request_still_writes_is_not_sent_again(source: Path) -> None:
    """The partial file grows between the two questions about it."""
    content = (source / "large").read_bytes()
    received, offsets = len(content) // 2, list[int]()

    async def sums(request: web.Request) -> web.Response:
        (asked,) = await request.json()
        if "partial" not in asked:
            return web.Response(body=lines({"error": "none", "reason": "NotFound"}))
        arrived = content[: asked.get("length", received + 1)]
        return web.Response(body=lines({"size": len(arrived), "sha256": sha256(arrived)}))

    async def partial(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"received": received})
        offsets.append(int(request.query["offset"]))
        return web.json_response({"received": offsets[-1] + len(await request.read())})

    answers: dict[str, Handler] = {
        requests.VOLUME: answer(lines({"writable": True, "free": 1 << 60})),
        requests.FILES: answer(lines({"end": True})),
        requests.PARTIAL: partial,
        requests.SUMS: sums,
        requests.FINISH: answer(lines({"sha256": sha256(content)})),
    }
    async with hostile_door(answers) as door:
        sent = await upload(door, source / "large", "", policy=QUICK)
    assert offsets == [received]
    assert sent.bytes == len(content) - received


@asynchronous
async def test_a_transfer_keeps_its_door_from_ending(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The door is asked again, although the transfer has nothing to ask for long."""
    asked = 0
    again = asyncio.Event()

    async def volume(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked > 1:
            again.set()
        return web.json_response({"writable": True, "free": 1 << 60})

    async def listed(request: web.Request) -> web.Response:
        await again.wait()
        return web.Response(body=lines({"end": True}))

    monkeypatch.setattr(door_requests, "_PULSE_SECONDS", 0.01)
    answers: dict[str, Handler] = {
        requests.VOLUME: volume,
        requests.FILES: listed,
        requests.WRITE: answer(lines({"written": 1})),
    }
    async with hostile_door(answers) as door:
        sent = await upload(door, source / "empty", "", policy=QUICK)
    assert sent.files == 1

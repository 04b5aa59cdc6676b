"""Sends files to an imagenet-door and fetches them from it, so that a cut transfer can go on.

What is sent has a hidden partial name beside its target until its SHA-256 was compared. A second
call goes on with what is there, and leaves out files of the same size and sum. Small files are sent
many in one request, since each request costs the way to the cluster and back.

`door_requests` asks the door, `imagenet_spec.tree` has the rules for names.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial as partial_of
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from imagenet_operator.sdk.door_requests import (
    POLICY,
    SILENT_SECONDS,
    Connection,
    Door,
    Policy,
    TransferError,
    error_of,
    line_of,
    whole_of,
)
from imagenet_operator.sdk.interface import Progress, Transferred
from imagenet_spec import door as requests
from imagenet_spec.door import BATCH_FILES, PIECE_BYTES, SMALL_BYTES
from imagenet_spec.tree import (
    FileError,
    Partial,
    Tree,
    file_errors,
    parts_of,
    read_hash,
    write_all,
)

if TYPE_CHECKING:
    from hashlib import _Hash

AT_ONCE: Final = 4
"""Requests at a time."""

_BATCH_BYTES: Final = 4 << 20
"""What small files of one request have together, at most, if there are several."""

_TRIES: Final = 3
"""How often a file is sent that changes meanwhile."""

_BLOCK_BYTES: Final = 1 << 20
_HASH_BYTES: Final = 64 << 20
"""What is hashed in one go: so long an interrupt waits."""

_NO_SUMS: Final[Mapping[str, str]] = MappingProxyType({})

Answer = TypeVar("Answer")
Item = TypeVar("Item")


async def read(door: Door, path: str, *, policy: Policy = POLICY) -> bytes:
    """Return the content of one file, of at most `SMALL_BYTES`, such as a result.json."""

    async def ask() -> bytes:
        content = bytearray()
        async with connection.send("GET", requests.FILE, {"path": path}) as response:
            async for block in response.content.iter_any():
                content.extend(block)
                if len(content) > SMALL_BYTES:
                    raise TransferError(f"{path}: has more than {SMALL_BYTES} bytes", "Invalid")
        return bytes(content)

    connection = Connection(door, policy)
    return await connection.outage().ask(ask)


async def names(door: Door, path: str, *, policy: Policy = POLICY) -> Sequence[str]:
    """Return the names of all files below a folder, relative to it; none if there is no folder."""
    connection = Connection(door, policy)
    listed = await connection.outage().ask(lambda: connection.files(path, is_optional=True))
    return [_below(name, path, is_file=False) for name in listed.sizes]


async def download(
    door: Door,
    path: str,
    to: Path,
    *,
    sums: Mapping[str, str] = _NO_SUMS,
    wanted: Callable[[str], bool] = lambda name: True,
    progress: Callable[[Progress], None] = lambda progress: None,
    policy: Policy = POLICY,
) -> Transferred:
    """Fetch a folder, or one file, into a folder of this machine, which is made if need be.

    Files below `path` have the same names below `to`; a single file keeps its name. Folders without
    files are not made. `sums` has the hex SHA-256 of files that must be there, by their names below
    `to`. `progress` is called as bytes arrive.

    Raises:
        TransferError: A file is missing, changes, has another sum or a name that could leave `to`,
            or the door does not answer. What has arrived stays for the next call.
        FileError: A file of this machine cannot be read or written.
    """
    async with Connection(door, policy) as connection:
        listed = await connection.outage().ask(lambda: connection.files(path))
        names = {_below(one, path, is_file=listed.is_file): one for one in sorted(listed.sizes)}
        sizes = {name: listed.sizes[one] for name, one in names.items() if wanted(name)}
        _refuse_clashes(sizes)
        if missing := sorted(sums.keys() - sizes.keys()):
            raise TransferError(f"{missing[0]}: is not in {path or 'the folder'}", "NotFound")
        with file_errors(str(to)):
            to.mkdir(parents=True, exist_ok=True)
        with Tree(to) as tree:
            account = _Account(progress, sizes)
            fetching = _Download(connection, tree, path, listed.is_file, sums, account)
            same_size = await _in_thread(
                lambda: {name: size for name, size in sizes.items() if tree.size(name) == size}
            )
            await _side_by_side(_batches(same_size), fetching.compare)
            rest = {name: size for name, size in sizes.items() if name not in account.unchanged}
            needed = sum(rest.values()) - await _in_thread(lambda: fetching.received(rest))
            _require_room(needed, tree.free(), str(to))
            await _side_by_side(_batches(rest), fetching.fetch)
    return account.transferred(listed.left_out)


async def upload(
    door: Door,
    source: Path,
    path: str,
    *,
    progress: Callable[[Progress], None] = lambda progress: None,
    policy: Policy = POLICY,
) -> Transferred:
    """Send a folder's files, or one file such as a tar, into a folder of a door that is writable.

    Files below `source` get the same names below `path`; a single file keeps its name. Links are
    not followed, and folders without files are not made. `progress` is called as bytes leave.

    Raises:
        TransferError: The door is read-only, its volume has too little room (said before anything
            is sent), a file changes while it is sent, or the door does not answer.
        FileError: A file of this machine cannot be read.
    """
    parts_of(path)
    folder, only = source, ""
    with file_errors(str(source)):
        if not source.is_dir():
            # What is named may be a link.
            real = source.resolve(strict=True)
            folder, only = real.parent, real.name
    async with Connection(door, policy) as connection:
        volume = await connection.json("GET", requests.VOLUME)
        if volume.get("writable") is not True:
            raise TransferError("the folder is served read-only", "ReadOnly")
        with Tree(folder) as tree:
            found = await _in_thread(lambda: sorted(tree.files(only), key=lambda one: one.path))
            sizes = {one.path: one.size for one in found if not one.left_out}
            if only and not sizes:
                raise FileError("Invalid", f"{source}: {found[0].left_out}")
            account = _Account(progress, sizes)
            sending = _Upload(connection, tree, path, {only: source.name} if only else {}, account)
            there = await connection.outage().ask(
                lambda: connection.files(sending.target(only) if only else path, is_optional=True)
            )
            same_size = {
                name: size
                for name, size in sizes.items()
                if there.sizes.get(sending.target(name)) == size
            }
            await _side_by_side(_batches(same_size), sending.compare)
            rest = {name: size for name, size in sizes.items() if name not in account.unchanged}
            needed, free = sum(rest.values()), whole_of(volume, "free")
            if needed > free:
                # The volume has what an earlier call has sent.
                needed -= await sending.received(rest)
            _require_room(needed, free, "the volume of the door")
            await _side_by_side(_batches(rest), sending.send)
    return account.transferred((one.path, one.left_out) for one in found if one.left_out)


class _Account:
    """What was done of a transfer, for its progress and its result."""

    def __init__(self, progress: Callable[[Progress], None], sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.unchanged: set[str] = set()
        self.sent = 0
        self._progress = progress
        self._of_bytes = sum(sizes.values())
        self._files = 0
        self._bytes = 0
        self._under_way: dict[str, int] = {}
        self._report()

    def at(self, name: str, size: int) -> None:
        """Note how many bytes of a file are done; fewer than before have to be sent again."""
        self._bytes += size - self._under_way.get(name, 0)
        self._under_way[name] = size
        self._report()

    def done(self, name: str) -> None:
        self._bytes += self.sizes[name] - self._under_way.pop(name, 0)
        self._files += 1
        self._report()

    def is_there(self, name: str) -> None:
        self.unchanged.add(name)
        self.done(name)

    def _report(self) -> None:
        self._progress(Progress(self._files, len(self.sizes), self._bytes, self._of_bytes))

    def transferred(self, left_out: Iterable[tuple[str, str]]) -> Transferred:
        files = self._files - len(self.unchanged)
        return Transferred(files, self.sent, len(self.unchanged), tuple(left_out))


@dataclass(frozen=True)
class _Download:
    """Files of a door that go to a folder of this machine; names are relative to it."""

    connection: Connection
    tree: Tree
    path: str
    is_file: bool
    sums: Mapping[str, str]
    account: _Account

    def origin(self, name: str) -> str:
        return self.path if self.is_file else _joined(self.path, name)

    def received(self, names: Iterable[str]) -> int:
        return sum(self.tree.size(name, is_partial=True) or 0 for name in names)

    async def compare(self, names: Sequence[str]) -> None:
        there = self.connection.sums([{"path": self.origin(name)} for name in names])
        for name, sha256 in (await _same(self.tree, names, there)).items():
            self._require_sum(name, sha256)
            self.account.is_there(name)

    async def fetch(self, names: Sequence[str]) -> None:
        if self.account.sizes[names[0]] > SMALL_BYTES:
            await self._fetch_large(names[0])
            return
        contents = await self.connection.outage().ask(lambda: self._read(names))
        for name, content in contents.items():
            self._require_sum(name, hashlib.sha256(content).hexdigest())
        await _in_thread(lambda: self.tree.write(contents.items()))
        for name, content in contents.items():
            self.account.sent += len(content)
            self.account.done(name)

    async def _read(self, names: Sequence[str]) -> dict[str, bytes]:
        contents = {}
        paths = [self.origin(name) for name in names]
        async with self.connection.send("POST", requests.READ, json=paths) as response:
            for name, path in zip(names, paths, strict=True):
                frame = await line_of(response)
                if frame.get("path") != path:
                    raise TransferError(f"{path}: the door has answered for another", "Invalid")
                if "error" in frame:
                    raise error_of(frame)
                size = whole_of(frame, "size")
                if size > SMALL_BYTES:
                    raise TransferError(f"{path}: has more than {SMALL_BYTES} bytes", "Invalid")
                try:
                    content = await response.content.readexactly(size)
                except asyncio.IncompleteReadError as error:
                    raise TransferError(f"{path}: the answer has ended") from error
                if hashlib.sha256(content).hexdigest() != frame.get("sha256"):
                    raise TransferError(f"{path}: has arrived damaged", "WrongSum")
                contents[name] = content
        return contents

    def _require_sum(self, name: str, sha256: str) -> None:
        wanted = self.sums.get(name)
        if wanted not in (None, sha256):
            raise TransferError(f"{name}: has the SHA-256 {sha256}, not {wanted}", "WrongSum")

    async def _fetch_large(self, name: str) -> None:
        size = self.account.sizes[name]
        # A file that has grown since it was listed is fetched as it was.
        asked: list[dict[str, object]] = [{"path": self.origin(name), "length": size}]
        with self.tree.partial(name) as partial:
            for _ in range(_TRIES):
                sha256 = await self._fetch_rest(name, partial)
                if await self.connection.sums(asked) == [(size, sha256)]:
                    break
                with file_errors(name):
                    partial.file.truncate(0)
            else:
                raise TransferError(f"{name}: changes while it is fetched", "Changed")
            try:
                self._require_sum(name, sha256)
            except TransferError:
                self.tree.discard(partial)
                raise
            await _in_thread(lambda: self.tree.publish([partial]))
        self.account.done(name)

    async def _fetch_rest(self, name: str, partial: Partial) -> str:
        """Fetch what is missing of a large file, and return the SHA-256 of all of it."""
        path, size = self.origin(name), self.account.sizes[name]
        received, hashed = await _hash_of(partial.file, partial.size, name)
        if received:
            there = await self.connection.sums([{"path": path, "length": received}])
            if received > size or there != [(received, hashed.hexdigest())]:
                received, hashed = 0, hashlib.sha256()
        with file_errors(name):
            partial.file.truncate(received)
            partial.file.seek(received)
        self.account.at(name, received)
        outage = self.connection.outage()
        while received < size:
            try:
                async with aclosing(self._blocks(path, received, size)) as blocks:
                    async for block in blocks:
                        await _in_thread(partial_of(_append, partial, block, hashed))
                        received += len(block)
                        self.account.sent += len(block)
                        self.account.at(name, received)
                        outage.over()
            except TransferError as error:
                if error.reason == "Changed":
                    # It has become shorter, which its sum shows.
                    break
                await outage.pause(error)
        return hashed.hexdigest()

    async def _blocks(self, path: str, start: int, end: int) -> AsyncGenerator[bytes]:
        """Yield a range of a file, in blocks that are worth a call of the system."""
        headers = {"Range": f"bytes={start}-{end - 1}"}
        block = bytearray()
        async with self.connection.send(
            "GET", requests.FILE, {"path": path}, headers=headers
        ) as response:
            async for part in response.content.iter_any():
                block += part
                start += len(part)
                if start > end:
                    raise TransferError(f"{path}: the door sends more than it lists", "Invalid")
                if len(block) >= _BLOCK_BYTES:
                    yield bytes(block)
                    block.clear()
            if start < end:
                raise TransferError(f"{path}: has become shorter", "Changed")
        yield bytes(block)


@dataclass(frozen=True)
class _Upload:
    """Files of this machine that go to a folder of a door; names are relative to `tree`.

    `renamed` has another name there: a file that was named by a link.
    """

    connection: Connection
    tree: Tree
    path: str
    renamed: Mapping[str, str]
    account: _Account

    def target(self, name: str) -> str:
        return _joined(self.path, self.renamed.get(name, name))

    async def received(self, sizes: Mapping[str, int]) -> int:
        """Return how many bytes of large files the door has from an earlier call."""
        count = 0
        for name, size in sizes.items():
            if size > SMALL_BYTES:
                count += min(size, await self._received(name))
        return count

    async def _received(self, name: str) -> int:
        query = {"path": self.target(name)}
        return whole_of(await self.connection.json("GET", requests.PARTIAL, query), "received")

    async def compare(self, names: Sequence[str]) -> None:
        there = self.connection.sums([{"path": self.target(name)} for name in names])
        for name in await _same(self.tree, names, there):
            self.account.is_there(name)

    async def send(self, names: Sequence[str]) -> None:
        if self.account.sizes[names[0]] > SMALL_BYTES:
            await self._send_large(names[0])
            return
        contents = await _in_thread(lambda: [self._content(name) for name in names])
        frames = bytearray()
        for name, content in zip(names, contents, strict=True):
            sha256 = hashlib.sha256(content).hexdigest()
            frame = {"path": self.target(name), "size": len(content), "sha256": sha256}
            frames += json.dumps(frame).encode() + b"\n" + content
        await self.connection.json("POST", requests.WRITE, data=bytes(frames))
        for name, content in zip(names, contents, strict=True):
            self.account.sent += len(content)
            self.account.done(name)

    def _content(self, name: str) -> bytes:
        for _ in range(_TRIES):
            with self.tree.open(name) as file, file_errors(name):
                before = _stamp(file)
                content = file.read(SMALL_BYTES + 1) or b""
                if len(content) <= SMALL_BYTES and _stamp(file) == before:
                    return content
        raise TransferError(f"{name}: changes while it is sent", "Changed")

    async def _send_large(self, name: str) -> None:
        with self.tree.open(name) as file:
            for _ in range(_TRIES):
                before = _stamp(file)
                size, _ = before
                try:
                    sha256 = await self._send_rest(name, file, size)
                    if _stamp(file) == before:
                        await self._finish(name, size, sha256)
                        self.account.done(name)
                        return
                except TransferError as error:
                    if error.reason not in ("Changed", "WrongSum"):
                        raise
        raise TransferError(f"{name}: changes while it is sent", "Changed")

    async def _send_rest(self, name: str, file: FileIO, size: int) -> str:
        """Send what the door has not of a large file, and return the SHA-256 of all of it."""
        sent = received = await self._received(name)
        hashed = hashlib.sha256()
        if sent:
            sent, hashed = await _hash_of(file, min(received, size), name)
            # The request of a connection that was cut a moment ago may still add to it.
            part = {"path": self.target(name), "partial": True, "length": received}
            there = await self.connection.sums([part])
            if there != [(sent, hashed.hexdigest())]:
                sent, hashed = 0, hashlib.sha256()
        self.account.at(name, sent)
        outage = self.connection.outage()
        while sent < size:
            piece = await _in_thread(
                partial_of(os.pread, file.fileno(), min(PIECE_BYTES, size - sent), sent)
            )
            if not piece:
                # It has become shorter.
                break
            try:
                await self._put(name, sent, piece)
            except TransferError as error:
                self.account.at(name, sent)
                await outage.pause(error)
                continue
            outage.over()
            hashed.update(piece)
            sent += len(piece)
            self.account.sent += len(piece)
        return hashed.hexdigest()

    async def _put(self, name: str, offset: int, piece: bytes) -> None:
        """Send bytes, as long as the door takes some of them in a minute."""
        limit = asyncio.timeout(SILENT_SECONDS)
        now = asyncio.get_running_loop().time

        async def blocks() -> AsyncGenerator[bytes]:
            for start in range(0, len(piece), _BLOCK_BYTES):
                block = piece[start : start + _BLOCK_BYTES]
                limit.reschedule(now() + SILENT_SECONDS)
                yield block
                try:
                    self.account.at(name, offset + start + len(block))
                except Exception as error:
                    # aiohttp would take an error of the caller for one of the connection.
                    of_caller.append(error)
                    raise
            # From here on, aiohttp's timeout holds.
            limit.reschedule(None)

        of_caller: list[Exception] = []
        query = {"path": self.target(name), "offset": str(offset)}
        length = {"Content-Length": str(len(piece))}
        try:
            async with (
                limit,
                self.connection.send(
                    "PUT", requests.PARTIAL, query, data=blocks(), headers=length
                ) as response,
            ):
                received = whole_of(await line_of(response), "received")
        except TimeoutError as error:
            raise TransferError(f"{name}: the door takes no further bytes") from error
        except TransferError:
            if of_caller:
                raise of_caller[0] from None
            raise
        if received != offset + len(piece):
            raise TransferError(f"{name}: {received} bytes have arrived", "Changed")

    async def _finish(self, name: str, size: int, sha256: str) -> None:
        query = {"path": self.target(name), "size": str(size), "sha256": sha256}

        async def ask() -> None:
            async with self.connection.send("POST", requests.FINISH, query) as response:
                line = await line_of(response)
                if "error" in line:
                    raise error_of(line)
                if line.get("sha256") != sha256:
                    raise TransferError(f"{name}: has another SHA-256 there", "WrongSum")

        await self.connection.outage().ask(ask)


async def _side_by_side(items: Iterable[Item], work: Callable[[Item], Awaitable[None]]) -> None:
    """Do some work for each item, `AT_ONCE` at a time; the first failure ends all."""
    left = iter(items)

    async def go_on() -> None:
        for item in left:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(go_on())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _in_thread(work: Callable[[], Answer]) -> Answer:
    """Run what blocks; if the caller is cancelled, it ends first, since it uses open files."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _same(
    tree: Tree, names: Sequence[str], asked: Awaitable[Sequence[tuple[int, str] | None]]
) -> dict[str, str]:
    """Return the SHA-256 of those files that have the size and sum that the door says."""

    async def sums() -> list[tuple[int, str]]:
        found = []
        for name in names:
            with tree.open(name) as file:
                size, hashed = await _hash_of(file, None, name)
            found.append((size, hashed.hexdigest()))
        return found

    here = asyncio.create_task(sums())
    try:
        there = await asked
        mine = await here
    finally:
        here.cancel()
        await asyncio.gather(here, return_exceptions=True)
    pairs = zip(names, mine, there, strict=True)
    return {name: one[1] for name, one, other in pairs if one == other}


def _batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    size_of_batch = 0
    for name, size in sizes.items():
        if size > SMALL_BYTES:
            yield [name]
            continue
        if len(batch) == BATCH_FILES or size_of_batch + size > _BATCH_BYTES:
            yield batch
            batch, size_of_batch = [], 0
        batch.append(name)
        size_of_batch += size
    if batch:
        yield batch


def _below(path: str, folder: str, *, is_file: bool) -> str:
    """Return the name that a listed file gets; the door may be hostile."""
    try:
        parts_of(path)
        if not is_file and folder and not path.startswith(f"{folder}/"):
            raise FileError("Invalid", f"{path}: is not below {folder}")
    except FileError as error:
        raise TransferError(f"the door lists a name that is refused: {error}", "Invalid") from error
    return path.rpartition("/")[2] if is_file else path[len(folder) :].lstrip("/")


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _refuse_clashes(names: Mapping[str, object]) -> None:
    for name in names:
        above = name
        while above := above.rpartition("/")[0]:
            if above in names:
                raise TransferError(f"{above}: is listed as a file and as a folder", "Invalid")


def _require_room(needed: int, free: int, where: str) -> None:
    if needed > free:
        raise TransferError(
            f"{where}: {needed} bytes are needed, and {free} are free; make room there first",
            "Full",
        )


def _stamp(file: FileIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


async def _hash_of(file: FileIO, length: int | None, name: str) -> tuple[int, _Hash]:
    """Hash a file from its beginning, to its end or `length` bytes; return how many there were."""
    size, hashed = 0, hashlib.sha256()

    def go_on(most: int) -> int:
        with file_errors(name):
            file.seek(size)
            return read_hash(file, most, hashed)[0]

    while True:
        most = _HASH_BYTES if length is None else min(_HASH_BYTES, length - size)
        count = await _in_thread(partial_of(go_on, most))
        size += count
        if count < _HASH_BYTES:
            return size, hashed


def _append(partial: Partial, block: bytes, hashed: _Hash) -> None:
    with file_errors(partial.path):
        write_all(partial.file, block)
    hashed.update(block)

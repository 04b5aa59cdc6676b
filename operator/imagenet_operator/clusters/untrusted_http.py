"""One HTTP GET of a server that is not trusted, without an HTTP library.

A library follows what a server sends: compressed content, any number of announcements (100
Continue) or of chunks of one byte, all of it read in one turn of the event loop. Here an answer has
one head and a limited length, the framing included, and other tasks have their turn after each
piece of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

PIECE_BYTES: Final = 8 << 10
"""How much of an answer is read before other tasks have their turn; the limit of its head as well.

The head is what comes before the content: the status and the headers.
"""

MAX_BYTES: Final = 64 << 10
"""The longest content."""

TOO_LONG: Final = f"more than {MAX_BYTES >> 10} KiB"
COMPRESSED: Final = "compressed"
REDIRECTED: Final = "redirected"

_CHUNK_COST: Final = 64
"""What a chunk adds to the length: each takes time, even if it has one byte."""

_OK: Final = 200
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([2-5][0-9][0-9])(?: .*)?")
_CHUNK_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;.*)?\r\n", re.DOTALL)


class LimitExceeded(Exception):  # noqa: N818 - named for what the server did
    """The answer exceeds a limit; the text says which."""


class BadAnswer(Exception):  # noqa: N818 - named for what the server sent
    """There is no answer, or none that is valid."""


async def get(host: str, port: int, path: str, feed: Callable[[bytes], None]) -> None:
    """Get a page, and call `feed` with each piece of its content; the caller limits the time.

    It raises LimitExceeded for content that is too long or compressed and for redirects, and
    BadAnswer without a valid answer.
    """
    try:
        reader, writer = await asyncio.open_connection(host, port, limit=PIECE_BYTES)
    except OSError as error:
        raise BadAnswer(str(error)) from error
    try:
        shown = f"[{host}]" if ":" in host else host
        lines = (
            f"GET {path} HTTP/1.1",
            f"Host: {shown}:{port}",
            "Accept: text/plain",
            "Accept-Encoding: identity",
            "User-Agent: imagenet-operator",
            "Connection: close",
        )
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        await _read(reader, feed)
    except (OSError, EOFError, asyncio.LimitOverrunError) as error:
        raise BadAnswer(str(error)) from error
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader, feed: Callable[[bytes], None]) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    found = _STATUS.fullmatch(first)
    if found is None:
        raise BadAnswer("the answer does not begin with a status")
    status, fields = int(found[1]), (line.partition(b":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    if 300 <= status < 400:
        raise LimitExceeded(REDIRECTED)
    if status != _OK:
        raise BadAnswer(f"the status is {status}")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise LimitExceeded(COMPRESSED)
    length = 0
    async with aclosing(_pieces(reader, headers)) as pieces:
        async for piece, cost in pieces:
            length += len(piece) + cost
            if length > MAX_BYTES:
                raise LimitExceeded(TOO_LONG)
            feed(piece)
            await asyncio.sleep(0)


async def _pieces(
    reader: asyncio.StreamReader, headers: dict[bytes, bytes]
) -> AsyncGenerator[tuple[bytes, int]]:
    """Yield the pieces of the content, and what each costs beyond its length."""
    if b"transfer-encoding" in headers:
        if headers[b"transfer-encoding"].lower() != b"chunked":
            raise LimitExceeded(COMPRESSED)
        while size := await _chunk_size(reader):
            async for piece in _exactly(reader, size):
                yield piece, _CHUNK_COST
            await reader.readexactly(2)
    elif b"content-length" in headers:
        length = headers[b"content-length"]
        if not length.isdigit():
            raise BadAnswer("the length is no number")
        if len(length) > len(str(MAX_BYTES)):
            raise LimitExceeded(TOO_LONG)
        async for piece in _exactly(reader, int(length)):
            yield piece, 0
    else:
        while piece := await reader.read(PIECE_BYTES):
            yield piece, 0


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    size = _CHUNK_SIZE.fullmatch(await reader.readuntil(b"\r\n"))
    if size is None:
        raise BadAnswer("a chunk has no size")
    return int(size[1], 16)


async def _exactly(reader: asyncio.StreamReader, length: int) -> AsyncGenerator[bytes]:
    while length:
        piece = await reader.read(min(length, PIECE_BYTES))
        if not piece:
            raise BadAnswer("the content is cut")
        length -= len(piece)
        yield piece

"""Members with hostile answers, each kind on its own port, in a separate process.

A separate process keeps their cost apart from the cost of scraping them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

from support.metrics_server import metrics

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
_HEAD = "HTTP/1.1 {}\r\nContent-Type: text/plain\r\nConnection: close\r\n{}\r\n"


async def good(writer: asyncio.StreamWriter) -> None:
    """What a worker answers."""
    await _send(writer, "200 OK", body=metrics().encode())


async def chunked(writer: asyncio.StreamWriter) -> None:
    """What a worker answers, in chunks."""
    await _send(writer, "200 OK", "Transfer-Encoding: chunked\r\n")
    text = metrics().encode()
    for piece in (text[:50], text[50:]):
        writer.write(f"{len(piece):x};a=b\r\n".encode() + piece + b"\r\n")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def redirect(writer: asyncio.StreamWriter) -> None:
    """Another place, such as the operator's own."""
    await _send(writer, "302 Found", "Location: http://127.0.0.1:1/metrics\r\n")


async def endless(writer: asyncio.StreamWriter) -> None:
    """Series without an end."""
    await _send(writer, "200 OK")
    while True:
        writer.write(b'imagenet_train_images_total{role="worker",attempt="0"} 1\n' * 1000)
        await writer.drain()


async def one_line(writer: asyncio.StreamWriter) -> None:
    """A line without an end."""
    await _send(writer, "200 OK")
    while True:
        writer.write(b'a{role="' * 8000)
        await writer.drain()


async def compressed(writer: asyncio.StreamWriter) -> None:
    """A hundred MB in a hundred KB."""
    await _send(writer, "200 OK", "Content-Encoding: gzip\r\n", _BOMB)


async def drip(writer: asyncio.StreamWriter) -> None:
    """One byte a second."""
    await _send(writer, "200 OK")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(1)


async def crumbs(writer: asyncio.StreamWriter) -> None:
    """An answer in chunks of one byte."""
    await _send(writer, "200 OK", "Transfer-Encoding: chunked\r\n")
    while True:
        writer.write(b"1\r\nx\r\n" * 10000)
        await writer.drain()


async def heads(writer: asyncio.StreamWriter) -> None:
    """Headers without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X: " + b"y" * 1000 + b"\r\n")
        await writer.drain()


async def provisional(writer: asyncio.StreamWriter) -> None:
    """Nothing but the announcement of an answer, over and over."""
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
        await writer.drain()


async def silence(writer: asyncio.StreamWriter) -> None:
    """Nothing at all."""
    del writer
    await asyncio.Event().wait()


KINDS: dict[str, Answer] = {
    answer.__name__: answer
    for answer in (
        good,
        chunked,
        redirect,
        endless,
        one_line,
        compressed,
        drip,
        crumbs,
        heads,
        provisional,
        silence,
    )
}
_BOMB = gzip.compress(b"x" * (100 << 20), 1) if __name__ == "__main__" else b""


async def _send(
    writer: asyncio.StreamWriter, status: str, headers: str = "", body: bytes = b""
) -> None:
    writer.write(_HEAD.format(status, headers).encode() + body)
    await writer.drain()


@contextlib.asynccontextmanager
async def hostile_members() -> AsyncIterator[dict[str, int]]:
    """Run one member of each kind until the block ends; yields kind → port, at any 127.x.x.x."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        ports = (await process.stdout.readline()).split()
        yield {kind: int(port) for kind, port in zip(KINDS, ports, strict=True)}
    finally:
        process.stdin.close()
        await process.wait()


def _serving(answer: Answer) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, EOFError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        writer.close()

    return serve  # type: ignore[return-value]


async def _main() -> None:
    servers = [
        await asyncio.start_server(_serving(answer), "0.0.0.0", backlog=1024)
        for answer in KINDS.values()
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    # Until the test is over, however it ends.
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    await stop.wait()
    # Without messages about closed connections.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(_main())

"""An HTTP proxy that opens tunnels (CONNECT), all of them to one address."""

import asyncio
import contextlib
from typing import Self


class ConnectProxy:
    """Serves while it is entered.

    Args:
        port: On the loopback interface, to which every tunnel leads.

    Attributes:
        asked: The host and port of each tunnel.
        url: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self.asked: list[str] = []
        self.url = ""
        self._port = port
        self._server: asyncio.Server | None = None
        self._tunnels: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for tunnel in self._tunnels:
            tunnel.cancel()
        await asyncio.gather(*self._tunnels, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tunnels.add(task)
        verb, target, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
        assert verb == "CONNECT"
        self.asked.append(target)
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while block := await reader.read(65536):
            writer.write(block)
            await writer.drain()
    finally:
        writer.close()

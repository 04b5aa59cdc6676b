"""The kubelet's side of port-forwards: websockets to listeners of this machine."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = b"\0", b"\1"


@dataclass
class ForwardedPorts:
    """What pods listen to at their 127.0.0.1.

    Attributes:
        listeners: Pod → port → the port of this machine in its place.
        cuts: After how many bytes from the pod each of the next connections is cut.
        opened: How many connections were opened.
        open: How many are open.
    """

    listeners: dict[str, Mapping[int, int]] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    opened: int = 0
    open: int = 0

    async def serve(self, request: web.BaseRequest, pod: str) -> web.StreamResponse:
        """Answer a request for a pod's port as the kubelet does, until either end is over."""
        if request.headers["Accept"] != "*/*":
            raise web.HTTPNotAcceptable
        websocket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=0)
        await websocket.prepare(request)
        port = int(request.query["ports"])
        for channel in (DATA, ERROR):
            await websocket.send_bytes(channel + struct.pack("<H", port))
        self.opened += 1
        self.open += 1
        try:
            listener = self.listeners.get(pod, {}).get(port, 0)
            reader, writer = await asyncio.open_connection("127.0.0.1", listener)
        except OSError as error:
            said = f"error forwarding port {port} to pod {pod}: connect: {error.strerror}"
            await websocket.send_bytes(ERROR + said.encode())
        else:
            await self._copy(request, websocket, reader, writer)
        finally:
            self.open -= 1
        await websocket.close()
        return websocket

    async def _copy(
        self,
        request: web.BaseRequest,
        websocket: web.WebSocketResponse,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        left = self.cuts.pop(0) if self.cuts else None

        async def send() -> None:
            nonlocal left
            while block := await reader.read(32768):
                if left is not None and len(block) >= left:
                    await websocket.send_bytes(DATA + block[:left])
                    assert request.transport is not None
                    request.transport.abort()
                    return
                left = None if left is None else left - len(block)
                await websocket.send_bytes(DATA + block)

        async def receive() -> None:
            async for message in websocket:
                assert message.type == WSMsgType.BINARY and message.data[:1] == DATA
                writer.write(message.data[1:])
                await writer.drain()

        directions = [asyncio.create_task(work) for work in (send(), receive())]
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        writer.close()

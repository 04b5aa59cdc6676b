"""Connections to a port of a pod's own 127.0.0.1, through the API server and the kubelet.

`PortForward` is the connector of an aiohttp session. Each of its connections is a websocket of the
API server, as `kubectl port-forward` has one, and no port of this machine: other users of the
machine cannot connect to it.

The subprotocol v4.channel.k8s.io has two channels for a port: its bytes, and errors in words. Each
message begins with the number of its channel, and the first one of each channel has the port. The
end of one direction cannot be sent, so a connection ends in both at once.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.kubernetes.client import TOO_MANY_REQUESTS, ApiError, Client
from imagenet_operator.clusters.kubernetes.objects import POD
from imagenet_spec.resource import Manifest

PROTOCOL: Final = "v4.channel.k8s.io"

DATA: Final = 0
ERROR: Final = 1
"""The channels of a port."""

ENDED: Final = ("Succeeded", "Failed")
"""The phases of a pod whose programs do not run any more."""

_BLOCK: Final = 1 << 16
_OPEN_SECONDS: Final = 30.0
"""How long the API server and the kubelet may take to open a connection."""


class PodEnded(ClusterError):  # noqa: N818 - says what has happened
    """The programs of a pod have ended, so it takes no connection any more."""

    def __init__(self, pod: Manifest) -> None:
        super().__init__(f"the pod {pod['metadata']['name']} has ended: {pod['status']['phase']}")
        self.pod = pod


class PortForward(aiohttp.BaseConnector):
    """Connects every request of a session to one port of a pod; the host of its URLs is ignored.

    If the API server refuses a connection, because the pod is gone or a right is missing, the
    request raises ApiError; if the pod has ended, PodEnded. Any other failure is an
    aiohttp.ClientError, and may pass.

    Attributes:
        failure: The kubelet's words for the last connection that failed; empty if there is none.
    """

    def __init__(self, client: Client, namespace: str, pod: str, port: int, limit: int = 4) -> None:
        super().__init__(limit=limit)
        self._client = client
        self._pod = POD.path(namespace, pod)
        self._path = f"{self._pod}/portforward"
        self._port = port
        self._pumps: set[asyncio.Task[None]] = set()
        self.failure = ""

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> ResponseHandler:
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                # For a pod that has ended, the kubelet only fails, as it does for one that starts.
                pod = await self._client.get(self._pod)
                if pod["status"].get("phase") in ENDED:
                    raise PodEnded(pod)
                websocket = await self._opened()
        except ApiError as error:
            if 0 < error.code < 500 and error.code != TOO_MANY_REQUESTS:
                raise
            raise aiohttp.ClientConnectionError(str(error)) from error
        except TimeoutError as error:
            raise aiohttp.ClientConnectionError(f"{self._path}: no answer") from error
        ours, its = socket.socketpair()
        # First: if this is cancelled, the end of `ours` also ends the websocket.
        pump = asyncio.create_task(self._pump(websocket, its), name=self._path)
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        _, protocol = await asyncio.get_running_loop().create_connection(self._factory, sock=ours)
        return protocol

    async def _opened(self) -> aiohttp.ClientWebSocketResponse:
        """Return a websocket of which the first message of both channels is read."""
        websocket = await self._client.websocket(self._path, PROTOCOL, ports=str(self._port))
        port = struct.pack("<H", self._port)
        awaited = {bytes([channel]) + port for channel in (DATA, ERROR)}
        try:
            while awaited:
                message = await websocket.receive()
                if message.data not in awaited:
                    what = f"{message.type.name} {message.data!r} in place of the port"
                    raise ApiError(f"CONNECT {self._path}", 0, "Garbled", what)
                awaited.remove(message.data)
        except BaseException:
            await websocket.close()
            raise
        return websocket

    async def _pump(self, websocket: aiohttp.ClientWebSocketResponse, its: socket.socket) -> None:
        """Copy both directions until one of them ends."""
        reader, writer = await asyncio.open_connection(sock=its)

        async def send() -> None:
            while block := await reader.read(_BLOCK):
                await websocket.send_bytes(bytes([DATA]) + block)

        async def receive() -> None:
            async for message in websocket:
                if message.type != aiohttp.WSMsgType.BINARY or not message.data:
                    return
                if message.data[0] == ERROR:
                    self.failure = message.data[1:].decode("utf-8", "replace")
                    return
                writer.write(message.data[1:])
                await writer.drain()

        directions = [asyncio.create_task(work) for work in (send(), receive())]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            # The user of the connection sees its end, whatever the cause is.
            await asyncio.gather(*directions, return_exceptions=True)
            writer.close()
            await websocket.close()

    def close(self, *, abort_ssl: bool = False) -> Awaitable[None]:
        """Close all connections, and wait until their websockets are closed."""
        closing = super().close(abort_ssl=abort_ssl)

        async def close() -> None:
            await closing
            await asyncio.gather(*self._pumps, return_exceptions=True)

        return asyncio.ensure_future(close())

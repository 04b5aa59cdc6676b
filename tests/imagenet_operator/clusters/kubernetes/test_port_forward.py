"""HTTP to a pod's own 127.0.0.1, through an API server that forwards its port."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.port_forward import PodEnded, PortForward
from support.api_requests import Refusal
from support.asynchronous import asynchronous, until
from support.client_jobs import RIGHTS, add_pod
from support.fake_api_server import FakeApiServer

PORT = 8470
LARGE = b"0123456789abcdef" * (1 << 18)


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    """Answer a GET with 4 MiB, anything else with the sum of its body."""
    if request.method == "GET":
        return web.Response(body=LARGE)
    body = hashlib.sha256()
    async for block in request.content.iter_chunked(1 << 16):
        body.update(block)
    return web.Response(text=body.hexdigest())


@contextlib.asynccontextmanager
async def forwarded() -> AsyncIterator[tuple[FakeApiServer, PortForward, aiohttp.ClientSession]]:
    """An API server, and a session whose requests go to PORT of its pod `door`."""
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with FakeApiServer() as server, Client(Connection(server.url)) as client:
            server.verbs = dict(RIGHTS)
            await add_pod(server, "door")
            server.ports.listeners["door"] = {PORT: runner.addresses[0][1]}
            connector = PortForward(client, "vision", "door", PORT)
            async with aiohttp.ClientSession(connector=connector) as session:
                yield server, connector, session
    finally:
        await runner.cleanup()


@asynchronous
async def test_bytes_pass_in_both_directions_over_one_connection() -> None:
    async with forwarded() as (server, _, session):
        for _ in range(2):
            async with session.get("http://door/") as response:
                assert await response.read() == LARGE
            async with session.put("http://door/", data=LARGE) as response:
                assert await response.text() == hashlib.sha256(LARGE).hexdigest()
        assert server.ports.opened == 1
    assert server.ports.open == 0


@asynchronous
async def test_a_refused_port_is_a_connection_error_with_the_words_of_the_kubelet() -> None:
    async with forwarded() as (server, connector, session):
        server.ports.listeners.clear()
        with pytest.raises(aiohttp.ClientError):
            await session.get("http://door/")
        assert f"error forwarding port {PORT} to pod door" in connector.failure


@pytest.mark.parametrize("cut", [0, 1, 100, 1_000_000])
def test_a_cut_ends_the_answer_and_the_next_request_has_a_new_connection(cut: int) -> None:
    @asynchronous
    async def story() -> None:
        async with forwarded() as (server, _, session):
            # aiohttp sends a GET once more that ended before its answer began.
            server.ports.cuts = [cut, cut]
            with pytest.raises(aiohttp.ClientError):
                async with session.get("http://door/") as response:
                    await response.read()
            server.ports.cuts.clear()
            async with session.get("http://door/") as response:
                assert await response.read() == LARGE
            await until(lambda: server.ports.open == 1, 0.01)

    story()


@asynchronous
async def test_what_the_api_server_refuses_is_said_in_its_words() -> None:
    async with forwarded() as (server, _, session):
        await server.remove("Pod", "door")
        with pytest.raises(ApiError) as gone:
            await session.get("http://door/")
        assert gone.value.code == 404
        await add_pod(server, "door")
        server.verbs.pop(("", "pods/portforward"))
        with pytest.raises(ApiError, match="may not get pods/portforward") as forbidden:
            await session.get("http://door/")
        assert forbidden.value.code == 403


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@asynchronous
async def test_a_pod_that_has_ended_is_no_failure_that_may_pass(phase: str) -> None:
    async with forwarded() as (server, _, session):
        await server.change("Pod", "door", lambda pod: pod["status"].update(phase=phase))
        with pytest.raises(PodEnded, match=f"the pod door has ended: {phase}"):
            await session.get("http://door/")


@asynchronous
async def test_a_server_that_fails_is_a_connection_error_which_may_pass() -> None:
    async with forwarded() as (server, _, session):
        no_kubelet = Refusal(500, "InternalError", "no kubelet")
        server.refuse(no_kubelet, lambda asked: asked.subresource == "portforward", times=1)
        with pytest.raises(aiohttp.ClientError, match="no kubelet"):
            await session.get("http://door/")
        async with session.get("http://door/") as response:
            assert await response.read() == LARGE


@asynchronous
async def test_another_protocol_than_that_of_forwarded_ports_is_refused() -> None:
    async with forwarded() as (server, _, session):

        async def chat(request: web.BaseRequest, pod: str) -> web.StreamResponse:
            del pod
            websocket = web.WebSocketResponse()
            await websocket.prepare(request)
            await websocket.send_str("hello")
            return websocket

        server.ports.serve = chat  # type: ignore[method-assign]
        with pytest.raises(aiohttp.ClientError, match="'hello' in place of the port"):
            await session.get("http://door/")


@asynchronous
async def test_a_login_that_was_refused_is_renewed_once() -> None:
    async with forwarded() as (server, _, session):
        server.lets_in = lambda _: False
        with pytest.raises(ApiError) as refused:
            await session.get("http://door/")
        assert refused.value.code == 401

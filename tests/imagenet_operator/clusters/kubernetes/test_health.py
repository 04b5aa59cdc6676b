"""/healthz and /readyz: the answers of an operator that is not healthy, or not ready."""

import aiohttp

from imagenet_operator.clusters.kubernetes.health import Server
from support.asynchronous import asynchronous
from support.loopback import free_port

DEAD = "the watch of pods is dead"
EARLY = "services are not listed yet"


async def answers(troubles: list[str], pending: list[str]) -> dict[str, str]:
    """What both say, with the code before it."""
    port = free_port()
    server = Server(lambda: iter(troubles), lambda: iter(pending), lambda: None, port)
    await server.start()
    try:
        found = {}
        async with aiohttp.ClientSession() as session:
            for path in ("/healthz", "/readyz"):
                async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                    found[path] = f"{response.status} {await response.text()}"
        return found
    finally:
        await server.stop()


@asynchronous
async def test_all_is_well() -> None:
    found = await answers([], [])
    assert found == {"/healthz": "200 ok\n", "/readyz": "200 ok\n"}


@asynchronous
async def test_a_dead_watch_fails_both() -> None:
    found = await answers([DEAD], [])
    assert found == {"/healthz": f"503 {DEAD}\n", "/readyz": f"503 {DEAD}\n"}


@asynchronous
async def test_who_is_not_ready_yet_is_alive() -> None:
    found = await answers([], [EARLY])
    assert found == {"/healthz": "200 ok\n", "/readyz": f"503 {EARLY}\n"}


@asynchronous
async def test_each_trouble_is_a_line() -> None:
    found = await answers([DEAD], [EARLY])
    assert found["/readyz"] == f"503 {EARLY}\n{DEAD}\n"

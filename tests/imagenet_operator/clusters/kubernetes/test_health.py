"""/healthz and /readyz: the answers of an operator that is not healthy, or not ready."""

import aiohttp
import pytest

from imagenet_operator.clusters.kubernetes.health import Server
from support.asynchronous import asynchronous
from support.loopback import free_port

DEAD = "the watch of pods is dead"
EARLY = "services are not listed yet"


async def answers(troubles: list[str], pending: list[str]) -> dict[str, str]:
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


@pytest.mark.parametrize(
    ("troubles", "pending", "healthz", "readyz"),
    [
        ([], [], "200 ok\n", "200 ok\n"),
        ([DEAD], [], f"503 {DEAD}\n", f"503 {DEAD}\n"),
        ([], [EARLY], "200 ok\n", f"503 {EARLY}\n"),
        ([DEAD], [EARLY], f"503 {DEAD}\n", f"503 {EARLY}\n{DEAD}\n"),
    ],
    ids=["all is well", "a dead watch", "not ready yet", "both"],
)
@asynchronous
async def test_each_trouble_is_a_line(
    troubles: list[str], pending: list[str], healthz: str, readyz: str
) -> None:
    assert await answers(troubles, pending) == {"/healthz": healthz, "/readyz": readyz}

"""The operator's HTTP endpoints: /metrics, /healthz and /readyz.

Healthy means that all watches are alive, that kopf reports the jobs, and that no reconcile hangs.
Ready also means that all caches are synced.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from imagenet_operator.clusters.kubernetes import metrics

PORT: Final = 8080

LONGEST_SILENCE: Final = 180.0
"""Seconds of silence after which a watch counts as dead."""


class Server:
    """Serves HTTP on a port, between `start` and `stop`.

    `troubles` says what is wrong, and `pending` what is not ready yet. `refresh` is called before
    metrics are served.
    """

    def __init__(
        self,
        troubles: Callable[[], Iterator[str]],
        pending: Callable[[], Iterator[str]],
        refresh: Callable[[], None],
        port: int = PORT,
    ) -> None:
        self._troubles = troubles
        self._pending = pending
        self._refresh = refresh
        self._port = port
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, port=self._port).start()

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        self._refresh()
        body = generate_latest(metrics.REGISTRY)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(list(self._troubles()))

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer([*self._pending(), *self._troubles()])


def is_silent(heard_at: float) -> bool:
    """Whether a watch that was last heard at this time counts as dead."""
    return time.monotonic() - heard_at > LONGEST_SILENCE


def _answer(complaints: list[str]) -> web.Response:
    if complaints:
        return web.Response(status=503, text="".join(f"{item}\n" for item in complaints))
    return web.Response(text="ok\n")

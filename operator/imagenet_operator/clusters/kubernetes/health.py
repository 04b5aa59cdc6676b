"""What the operator says of itself over HTTP: /metrics, /healthz and /readyz.

Alive means that every watch was heard within a bound, that kopf tells of the jobs, and that no pass
hangs; ready means that, and that every cache holds what the first list told.
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
"""Seconds after which a watch that was not heard is called dead."""


class Server:
    """Serves HTTP while it is entered.

    Args:
        troubles: What is wrong now, in words for people; nothing while all is well.
        pending: What is not there yet.
        refresh: Called before metrics are read.
        port: Where to listen.
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
        """Begin to serve.

        Raises:
            OSError: Somebody else listens there.
        """
        await self._runner.setup()
        await web.TCPSite(self._runner, port=self._port).start()

    async def stop(self) -> None:
        """Serve no longer."""
        await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        del request
        self._refresh()
        body = generate_latest(metrics.REGISTRY)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, request: web.Request) -> web.Response:
        del request
        return _answer(list(self._troubles()))

    async def _readyz(self, request: web.Request) -> web.Response:
        del request
        return _answer([*self._pending(), *self._troubles()])


def is_silent(heard_at: float) -> bool:
    """Whether something that was last heard then counts as dead."""
    return time.monotonic() - heard_at > LONGEST_SILENCE


def _answer(complaints: list[str]) -> web.Response:
    if complaints:
        return web.Response(status=503, text="".join(f"{item}\n" for item in complaints))
    return web.Response(text="ok\n")

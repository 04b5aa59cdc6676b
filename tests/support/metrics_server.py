"""A member of an attempt as the sampler knows one: an HTTP server with metrics, or a frozen one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web


def metrics(images: int = 100, speed: float = 50.0) -> str:
    """What a worker of the first attempt answers."""
    marks = 'role="worker",attempt="0"'
    return (
        f"imagenet_train_images_total{{{marks}}} {images}\n"
        f"imagenet_train_images_per_second{{{marks}}} {speed}\n"
    )


class MetricsServer:
    """A member's HTTP server, and what it answers.

    Attributes:
        text: The answer.
        is_frozen: Whether it takes connections and never answers, as a stopped process does.
        asked: How often it was asked.
        port: Where it listens, at 127.0.0.1.
    """

    def __init__(self) -> None:
        self.text = metrics()
        self.is_frozen = False
        self.asked = 0
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer, unless frozen."""
        del request
        self.asked += 1
        if self.is_frozen:
            await asyncio.Event().wait()
        return web.Response(text=self.text)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[MetricsServer]:
    """Run a member until the block ends."""
    member = MetricsServer()
    application = web.Application()
    application.router.add_get("/metrics", member.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    member.port = runner.addresses[0][1]
    try:
        yield member
    finally:
        await runner.cleanup()

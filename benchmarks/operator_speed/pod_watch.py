"""The pods by the API server's watch, and waits for a number of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress

from benchmarks.operator_speed.jobs import NAMESPACE, Manifest

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.manifests import labels

_PATH = objects.POD.path(NAMESPACE)
_SILENCE = 300.0


class Pods:
    """The pods of the namespace, kept up to date by a watch.

    Attributes:
        existing: By job, how many are there.
        running: How many of all run.
    """

    def __init__(self) -> None:
        self.existing: Counter[str] = Counter()
        self.running = 0
        self._states: dict[str, tuple[str, bool]] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._states)

    def is_running(self, name: str) -> bool:
        """Whether a pod runs."""
        return self._states.get(name, ("", False))[1]

    async def until(self, satisfied: Callable[[Pods], bool], seconds: float) -> None:
        """Wait for a state of the pods.

        Raises:
            TimeoutError: It did not come.
        """
        async with asyncio.timeout(seconds):
            while not satisfied(self):
                self._changed.clear()
                await self._changed.wait()

    def take(self, event: str, pod: Manifest) -> None:
        """Take note of what happened to a pod."""
        name = pod["metadata"]["name"]
        job, was_running = self._states.pop(name, ("", False))
        if job:
            self.existing[job] -= 1
            self.running -= was_running
        if event != "DELETED":
            job = pod["metadata"]["labels"][labels.JOB_NAME]
            runs = pod["status"].get("phase") == "Running"
            self._states[name] = (job, runs)
            self.existing[job] += 1
            self.running += runs
        self._changed.set()

    async def follow(self, client: Client, version: str) -> None:
        """Take note of everything that happens after a resource version, until cancelled."""
        while True:
            parameters = {"resourceVersion": version, "timeoutSeconds": "3600"}
            async with aclosing(client.watch(_PATH, _SILENCE, **parameters)) as events:
                async for event, pod in events:
                    version = pod["metadata"]["resourceVersion"]
                    if event != "BOOKMARK":
                        self.take(event, pod)


@asynccontextmanager
async def watched_pods(client: Client) -> AsyncIterator[Pods]:
    """Follow the pods while the block lasts."""
    pods = Pods()
    version = ""
    async for page in client.pages(_PATH):
        version = page["metadata"]["resourceVersion"]
        for pod in page["items"]:
            pods.take("ADDED", pod)
    following = asyncio.create_task(pods.follow(client, version))
    try:
        yield pods
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following

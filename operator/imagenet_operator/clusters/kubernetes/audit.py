"""The audit: whether the jobs that kopf has told of are the jobs that there are.

kopf's watch of the jobs is not ours to look into, and after a gap in it (410) it tells what is
there, not what has gone. So once a minute the API server is asked for the jobs' metadata alone:
jobs that are gone are forgotten, and if kopf has still not told of what the last audit has seen,
its watch is dead, which the health checks report.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.kubernetes import kinds
from imagenet_operator.clusters.kubernetes.cache import Cache, JobKey
from imagenet_operator.clusters.kubernetes.client import ApiError, Client

LOGGER = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 60.0
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Audit:
    """Compares the cache of jobs with the API server's list, while `run` runs.

    Args:
        client: Of the API server.
        jobs: What kopf has told of.
        namespaces: Where to look; None stands for all of them.
        forget: Called with each job that is gone.

    Attributes:
        heard_at: When the API server last answered, by the monotonic clock; None before the first
            audit.
        missed: Jobs of which kopf has not told in time.
    """

    def __init__(
        self,
        client: Client,
        jobs: Cache,
        namespaces: Sequence[str | None],
        forget: Callable[[JobKey], None],
    ) -> None:
        self.heard_at: float | None = None
        self.missed: frozenset[JobKey] = frozenset()
        self._client = client
        self._jobs = jobs
        self._namespaces = namespaces
        self._forget = forget
        self._behind: dict[JobKey, int] = {}

    async def run(self) -> None:
        """Audit again and again until cancelled."""
        while True:
            try:
                await self.look()
            except ApiError as error:
                LOGGER.warning("audit of the jobs: %s", error)
            await asyncio.sleep(PERIOD_SECONDS * random.uniform(0.8, 1))

    async def look(self) -> None:
        """Audit once.

        Raises:
            ApiError: The list cannot be read.
        """
        behind: dict[JobKey, int] = {}
        for namespace in self._namespaces:
            known = self._jobs.keys(namespace)
            items: list[Manifest] = []
            version = 0
            async for page in self._client.pages(kinds.JOB.path(namespace), _METADATA):
                items += page["items"]
                version = int(page["metadata"]["resourceVersion"])
            behind |= self._compare(items)
            self._forget_gone(items, version, known)
        self.missed = frozenset(
            key for key, version in self._behind.items() if behind.get(key) == version
        )
        if self.missed:
            LOGGER.error("kopf does not tell of jobs that have changed: %s", sorted(self.missed))
        self._behind = behind
        self.heard_at = time.monotonic()

    def _compare(self, items: Iterable[Manifest]) -> dict[JobKey, int]:
        """Return the jobs that are newer than what is known of them."""
        behind = {}
        for item in items:
            metadata = item["metadata"]
            key, version = (metadata["namespace"], metadata["name"]), metadata["resourceVersion"]
            known = self._jobs.get(*key)
            if known is None or known.version < int(version):
                behind[key] = int(version)
        return behind

    def _forget_gone(
        self, items: Iterable[Manifest], version: int, known: Iterable[JobKey]
    ) -> None:
        listed = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items}
        for key in known:
            job = self._jobs.get(*key)
            if key not in listed and job is not None and job.version <= version:
                self._jobs.drop(key, job.uid)
                self._forget(key)

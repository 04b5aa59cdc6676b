"""The watch liveness check: whether kopf reports every change of the jobs.

kopf does not show the state of its watch of the jobs. After a gap in it (410), kopf reports the
jobs that exist, not those that are gone. So once a minute this check lists the metadata of all
jobs. It forgets jobs that are gone. If kopf has not reported a change that the previous check saw,
kopf's watch is dead, and `health` says so.

If the jobs of a namespace may not be listed, it was deleted, with the operator's Role in it. It
holds up no other namespace, as long as one can be listed. kopf asks again until it may watch.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import FORBIDDEN, ApiError, Client
from imagenet_operator.clusters.kubernetes.objects import Cache
from imagenet_spec.resource.base import Manifest

LOGGER = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 60.0
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class WatchLiveness:
    """Compares the jobs that kopf has reported with the API server's list, while `run` runs.

    It calls `forget` with each job that is gone.

    Attributes:
        heard_at: When the API server last answered, by the monotonic clock; None before that.
        missed: Jobs of which kopf has not reported a change in time.
        denied: Namespaces in which the jobs may not be listed, while another one can be.
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
        self.denied: frozenset[str] = frozenset()
        self._client = client
        self._jobs = jobs
        self._namespaces = namespaces
        self._forget = forget
        self._behind: dict[JobKey, int] = {}

    async def run(self) -> None:
        while True:
            try:
                await self.check()
            except ApiError as error:
                LOGGER.warning("watch liveness check: %s", error)
            await asyncio.sleep(PERIOD_SECONDS * random.uniform(0.8, 1))

    async def check(self) -> None:
        """Check once; raise ApiError if the list cannot be read."""
        behind: dict[JobKey, int] = {}
        denied: set[str] = set()
        for namespace in self._namespaces:
            known = self._jobs.keys(namespace)
            items: list[Manifest] = []
            version = 0
            try:
                async for page in self._client.pages(objects.JOB.path(namespace), _METADATA):
                    items += page["items"]
                    version = int(page["metadata"]["resourceVersion"])
            except ApiError as error:
                if error.code != FORBIDDEN or namespace is None:
                    raise
                denied.add(namespace)
                if len(denied) == len(self._namespaces):
                    raise
                self._report_denial(namespace, error)
                continue
            listed = {
                (metadata["namespace"], metadata["name"]): int(metadata["resourceVersion"])
                for metadata in (item["metadata"] for item in items)
            }
            for key, newest in listed.items():
                job = self._jobs.get(*key)
                if job is None or job.version < newest:
                    behind[key] = newest
            for key in known:
                job = self._jobs.get(*key)
                if key not in listed and job is not None and job.version <= version:
                    self._jobs.drop(key, job.uid)
                    self._forget(key)
        self.denied = frozenset(denied)
        self.missed = frozenset(
            key for key, version in self._behind.items() if behind.get(key) == version
        )
        if self.missed:
            LOGGER.error("kopf does not report jobs that have changed: %s", sorted(self.missed))
        self._behind = behind
        self.heard_at = time.monotonic()

    def _report_denial(self, namespace: str, error: ApiError) -> None:
        """Log once that a namespace is denied; forget its jobs if it was denied before, too."""
        if namespace not in self.denied:
            LOGGER.warning(
                "%s; jobs in the namespace %s wait: restore the operator's Role there, or remove "
                "the namespace from watchNamespaces in the chart's values",
                error,
                namespace,
            )
            return
        for key in self._jobs.keys(namespace):
            if (job := self._jobs.get(*key)) is not None:
                self._jobs.drop(key, job.uid)
                self._forget(key)

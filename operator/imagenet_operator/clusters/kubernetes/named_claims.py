"""Reads of the claims that jobs name, of any owner.

The caches hold the operator's own claims alone; any other claim takes a request. Jobs that start
together often name one claim, so a claim that was read is used again for a short time.

That is as safe as a read for each job. The access modes of a claim never change. A claim may be
deleted after any read, and then the pods wait for it, whatever the age of the read. An absence is
never remembered, nor is a claim that is being deleted.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes.client import NOT_FOUND, ApiError, Client
from imagenet_operator.clusters.kubernetes.objects import Cache

MAX_AGE_SECONDS: Final = 10.0
"""How long a claim that was read is used again."""


class NamedClaims:
    """Claims by name.

    Args:
        client: Of the API server.
        cache: The claims that the operator created.
        clock: Returns seconds; it never goes back.
    """

    def __init__(
        self, client: Client, cache: Cache, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock
        self._read: dict[JobKey, tuple[float, Manifest]] = {}

    async def read(self, namespace: str, names: Iterable[str]) -> list[Manifest]:
        """Return the claims with these names; those that do not exist are left out.

        Raises:
            ApiError: One cannot be read.
        """
        self._drop_old()
        found = await asyncio.gather(*(self._one((namespace, name)) for name in sorted(set(names))))
        return [claim for claim in found if claim is not None]

    async def _one(self, key: JobKey) -> Manifest | None:
        if (known := self._known(key)) is not None:
            return known
        began = self._clock()
        try:
            claim = await self._client.get(self._cache.kind.path(*key))
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return None
        if not _is_terminating(claim):
            self._read[key] = began, claim
        return claim

    def _known(self, key: JobKey) -> Manifest | None:
        """Return a claim that was read before, or that the operator created."""
        if key in self._read:
            return self._read[key][1]
        cached = self._cache.get(*key)
        claim = None if cached is None else cached.manifest()
        return None if claim is None or _is_terminating(claim) else claim

    def _drop_old(self) -> None:
        oldest = self._clock() - MAX_AGE_SECONDS
        self._read = {key: read for key, read in self._read.items() if read[0] > oldest}


def _is_terminating(claim: Manifest) -> bool:
    return "deletionTimestamp" in claim["metadata"]

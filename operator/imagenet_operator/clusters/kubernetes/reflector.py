"""A reflector: lists and watches a kind, and keeps a cache in sync with the cluster.

As in client-go: a consistent list, then a watch with bookmarks from the list's resource version. If
that version is too old (410), it lists again. After any other error the watch resumes where it was,
with a back-off.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from imagenet_operator.clusters.kubernetes.client import FORBIDDEN, ApiError, Client
from imagenet_operator.clusters.kubernetes.objects import Cache, Entry, Kind
from imagenet_spec.resource.base import Manifest

LOGGER = logging.getLogger(__name__)

WATCH_SECONDS: Final = (120, 240)
"""The duration of a watch; drawn at random, so that watches do not end together."""

SILENCE_SECONDS: Final = 90.0
"""Without a bookmark for so long (one a minute is usual), the connection counts as lost."""

FIRST_DELAY: Final = 0.25
LONGEST_DELAY: Final = 15.0

GONE: Final = 410


class Reflector:
    """Keeps a cache in sync with a collection of the cluster, while `run` runs.

    Reflectors of several namespaces may share a cache.

    Attributes:
        synced: Set once the cache holds the first list.
        answered: Set once synced, or once the API server has denied access to the collection.
        heard_at: When the API server last sent something, by the monotonic clock.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        cache: Cache,
        *,
        namespace: str | None = None,
        selector: str | None = None,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.synced = asyncio.Event()
        self.answered = asyncio.Event()
        self.heard_at = time.monotonic()
        self._client = client
        self._cache = cache
        self._path = kind.path(namespace)
        self._selection = {} if selector is None else {"labelSelector": selector}
        self._version: str | None = None
        self._complaint: str | None = None
        self._failures = 0

    @property
    def name(self) -> str:
        """The name of the collection in messages."""
        return self.kind.plural + (f" in {self.namespace}" if self.namespace else "")

    async def run(self) -> None:
        while True:
            try:
                if self._version is None:
                    await self._list()
                async with aclosing(self._events()) as events:
                    async for event, item in events:
                        self._take(event, item)
                await asyncio.sleep(random.uniform(0, FIRST_DELAY))
            except ApiError as error:
                if error.code == GONE:
                    self._version = None
                if error.code == FORBIDDEN:
                    self.answered.set()
                if str(error) != self._complaint:
                    level = logging.INFO if error.code == GONE else logging.WARNING
                    LOGGER.log(level, "watch of %s: %s", self.name, error)
                    self._complaint = str(error)
                delay = min(FIRST_DELAY * 2.0 ** min(self._failures, 16), LONGEST_DELAY)
                self._failures += 1
                await asyncio.sleep(delay * random.uniform(0.5, 1))

    @property
    def version(self) -> int:
        """The resource version up to which the cache is in sync."""
        return int(self._version or 0)

    def _hear(self) -> None:
        self.heard_at = time.monotonic()
        self._failures = 0
        if self._complaint is not None:
            LOGGER.info("watch of %s: works again", self.name)
            self._complaint = None

    async def _list(self) -> None:
        entries: list[Entry] = []
        version = ""
        # Converted page by page: a list of all pods would take more memory than everything else.
        known = self._cache.keys(self.namespace)
        async for page in self._client.pages(self._path, **self._selection):
            version = page["metadata"]["resourceVersion"]
            entries += [self._cache.entry(item) for item in page["items"]]
            self._hear()
        self._cache.replace(entries, int(version), known)
        self._version = version
        self.synced.set()
        self.answered.set()

    async def _events(self) -> AsyncGenerator[tuple[str, Manifest]]:
        assert self._version is not None
        events = self._client.watch(
            self._path,
            SILENCE_SECONDS,
            resourceVersion=self._version,
            timeoutSeconds=str(random.randint(*WATCH_SECONDS)),
            **self._selection,
        )
        async with aclosing(events):
            async for event in events:
                self._hear()
                yield event
        self._hear()

    def _take(self, event: str, item: Manifest) -> None:
        if event == "ERROR":
            code = int(item.get("code", 0))
            # The stream has a gap here, so the collection must be listed again.
            self._version = None
            raise ApiError(f"WATCH {self._path}", code, item.get("reason", ""), item["message"])
        self._version = item["metadata"]["resourceVersion"]
        if event == "DELETED":
            self._cache.delete(item)
        elif event != "BOOKMARK":
            self._cache.put(item)

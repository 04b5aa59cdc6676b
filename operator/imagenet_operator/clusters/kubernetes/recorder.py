"""Sends Kubernetes Events, which `kubectl describe` shows, beside the reconciles.

An event follows the status write that it describes. An event that cannot be sent is logged and
dropped: nothing depends on it. The events of a series are one object with a count, which is updated
at most once a minute.
"""

import asyncio
import logging
import secrets
import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from imagenet_operator.clusters.kubernetes.client import NOT_FOUND, ApiError, Client
from imagenet_operator.clusters.kubernetes.objects import EVENT
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Event
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest

LOGGER = logging.getLogger(__name__)

REPORTER: Final = "imagenet-operator"
_PAUSE_SECONDS: Final = 0.02
_MOST: Final = 2000
"""The longest queue of events; beyond it, the oldest is dropped."""

_UPDATE_INTERVAL: Final = timedelta(minutes=1)
"""The shortest time between two updates of a series."""

_MOST_SERIES: Final = 1000
"""How many series are remembered; the event after a forgotten one is a new object."""


@dataclass
class _Series:
    manifest: Manifest
    queued_at: datetime
    count: int = 1


class Recorder:
    """Sends events one after the other, while `run` runs."""

    def __init__(
        self, client: Client, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client = client
        self._clock = clock
        self._waiting: deque[Manifest] = deque(maxlen=_MOST)
        self._series: OrderedDict[tuple[str, str, str], _Series] = OrderedDict()
        self._news = asyncio.Event()
        self._is_sending = False
        self._instance = socket.gethostname()[:128]

    def record(self, job: ImageNetJob, event: Event) -> None:
        now = self._clock()
        manifest = self._manifest(job, event, now)
        if event.series:
            updated = self._updated((job.metadata.uid, event.reason, event.series), manifest, now)
            if updated is None:
                return
            manifest = updated
        self._waiting.append(manifest)
        self._news.set()

    def _updated(
        self, key: tuple[str, str, str], manifest: Manifest, now: datetime
    ) -> Manifest | None:
        """Return what to send for the next event of a series; None if its turn is later."""
        series = self._series.get(key)
        if series is None:
            self._series[key] = _Series(manifest, now)
            if len(self._series) > _MOST_SERIES:
                self._series.popitem(last=False)
            return manifest
        self._series.move_to_end(key)
        series.count += 1
        if now < series.queued_at + _UPDATE_INTERVAL:
            return None
        series.queued_at = now
        first = {name: series.manifest[name] for name in ("metadata", "firstTimestamp")}
        series.manifest = {**manifest, **first, "count": series.count}
        return series.manifest

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._is_sending

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                # Requests that create pods go before events about them.
                await asyncio.sleep(_PAUSE_SECONDS)
                await self._send()

    async def flush(self) -> None:
        while self._waiting:
            await self._send()

    async def _send(self) -> None:
        manifest = self._waiting.popleft()
        self._is_sending = True
        try:
            if manifest["count"] == 1 or not await self._update(manifest):
                await self._client.create(EVENT.path(manifest["metadata"]["namespace"]), manifest)
        except ApiError as error:
            LOGGER.warning("an event could not be sent: %s", error)
        finally:
            self._is_sending = False

    async def _update(self, manifest: Manifest) -> bool:
        """Update the object of a series; return whether the API server still keeps it."""
        metadata = manifest["metadata"]
        changed = {name: manifest[name] for name in ("message", "lastTimestamp", "count")}
        try:
            await self._client.merge(EVENT.path(metadata["namespace"], metadata["name"]), changed)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return False
        return True

    def _manifest(self, job: ImageNetJob, event: Event, now: datetime) -> Manifest:
        metadata = job.metadata
        when = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        owner = labels.owner(job)
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {
                "name": f"{metadata.name}.{secrets.token_hex(8)}",
                "namespace": metadata.namespace,
            },
            "involvedObject": {
                **{name: owner[name] for name in ("apiVersion", "kind", "name", "uid")},
                "namespace": metadata.namespace,
            },
            "reason": event.reason,
            "message": event.message,
            "type": event.type,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
            "source": {"component": REPORTER},
            "reportingComponent": REPORTER,
            "reportingInstance": self._instance,
        }

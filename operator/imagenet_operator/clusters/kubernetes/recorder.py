"""Sends Kubernetes Events, which `kubectl describe` shows, beside the reconciles.

An event follows the status write that it describes. An event that cannot be sent is logged and
dropped: nothing depends on it.
"""

import asyncio
import logging
import secrets
import socket
from collections import deque
from datetime import UTC, datetime
from typing import Final

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.kinds import EVENT
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Event

LOGGER = logging.getLogger(__name__)

REPORTER: Final = "imagenet-operator"
_PAUSE_SECONDS: Final = 0.02
_MOST: Final = 2000
"""The longest queue of events; beyond it, the oldest is dropped."""


class Recorder:
    """Sends events one after the other, while `run` runs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: deque[Manifest] = deque(maxlen=_MOST)
        self._news = asyncio.Event()
        self._is_sending = False
        self._instance = socket.gethostname()[:128]

    def record(self, job: ImageNetJob, event: Event) -> None:
        """Queue an event."""
        self._waiting.append(self._manifest(job, event, datetime.now(UTC)))
        self._news.set()

    @property
    def is_idle(self) -> bool:
        """Whether all recorded events are sent."""
        return not self._waiting and not self._is_sending

    async def run(self) -> None:
        """Send events until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                # Requests that create pods go before events about them.
                await asyncio.sleep(_PAUSE_SECONDS)
                await self._send()

    async def flush(self) -> None:
        """Send the queued events."""
        while self._waiting:
            await self._send()

    async def _send(self) -> None:
        manifest = self._waiting.popleft()
        self._is_sending = True
        try:
            await self._client.create(EVENT.path(manifest["metadata"]["namespace"]), manifest)
        except ApiError as error:
            LOGGER.warning("an event could not be sent: %s", error)
        finally:
            self._is_sending = False

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

"""Enqueues a job for each of its events. The only module that uses kopf.

kopf watches the jobs and calls one handler for each event. It is a low-level `on.event` handler,
which adds no finalizer or annotation to a job and keeps no state. kopf's two storages are replaced
by empty ones. kopf's watch uses a session from `login`, and gets another one when the API
server refuses it.
"""

import asyncio
import itertools
import logging
import math
import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import aiohttp
import kopf

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import PAGE
from imagenet_operator.clusters.kubernetes.login import (
    RENEWAL_SECONDS,
    Connection,
    Credentials,
    NoConnection,
)
from imagenet_operator.clusters.kubernetes.operator import Operator
from imagenet_spec.resource.job import GROUP, VERSION


class Pauses:
    """The pauses between the attempts of one request: the given ones, of which the last repeats.

    By default, kopf gives up after a minute, and ends. It counts a denial as an error that passes,
    so a deleted namespace, with the operator's Role in it, would end the operator of all others.
    """

    def __init__(self, *seconds: float) -> None:
        self._seconds = seconds

    def __iter__(self) -> Iterator[float]:
        return itertools.chain(self._seconds, itertools.repeat(self._seconds[-1]))


RETRY_PAUSES: Final = Pauses(1, 1, 2, 3, 5)
"""After an outage, or a denial, kopf's watch goes on at most 5 s later."""


class NoDiffBase(kopf.DiffBaseStorage):
    """Stores no last-handled state: every reconcile reads everything."""

    def build(
        self, *, body: kopf.Body, extra_fields: Iterable[kopf.FieldSpec] | None = None
    ) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """Stores no progress of handlers: they have none between events."""

    def fetch(self, *, key: kopf.HandlerId, body: kopf.Body) -> kopf.ProgressRecord | None:
        return None

    def store(
        self,
        *,
        key: kopf.HandlerId,
        record: kopf.ProgressRecord,
        body: kopf.Body,
        patch: kopf.Patch,
    ) -> None:
        """Store nothing."""

    def purge(self, *, key: kopf.HandlerId, body: kopf.Body, patch: kopf.Patch) -> None:
        """Do nothing."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Do nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


async def start(
    operator: Operator, connection: Connection, namespaces: Sequence[str]
) -> asyncio.Task[None]:
    """Let kopf watch the jobs of these namespaces, or of all without any, until cancelled."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # By default this is the name of the user, which most containers lack.
    os.environ.setdefault("POD_ID", socket.gethostname())
    # At its end, kopf cancels all tasks except these.
    others = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=_registry(operator, connection),
        settings=settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
    )
    return asyncio.create_task(kopf.run_tasks(tasks, ignored=others), name="kopf")


def _registry(operator: Operator, connection: Connection) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    def answered(response: aiohttp.ClientResponse) -> None:
        if response.ok and "watch" in response.url.query:
            operator.watch_began(response.url.path)

    last: Credentials | None = None
    last_at = -RENEWAL_SECONDS

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        """Log in at the start, when the login expires, and when the API server refuses it."""
        nonlocal last, last_at
        try:
            credentials = await connection.credentials()
            if credentials is last:
                credentials = await connection.renew(credentials)
        except NoConnection as error:
            raise kopf.TemporaryError(str(error), delay=RENEWAL_SECONDS) from error
        if credentials is last and time.monotonic() < last_at + RENEWAL_SECONDS:
            # kopf would retry the same login at once.
            raise kopf.TemporaryError("the API server rejects the login", delay=RENEWAL_SECONDS)
        last, last_at = credentials, time.monotonic()
        return kopf.AiohttpSession(
            server=connection.server,
            aiohttp_session=connection.session(credentials, answered),
            # A session keeps its certificate, so kopf must log in again then.
            expiration=None
            if math.isinf(credentials.valid_seconds)
            else datetime.now(UTC) + timedelta(seconds=credentials.renew_seconds),
        )

    @kopf.on.event(GROUP, VERSION, objects.JOB.plural, registry=registry)
    async def enqueue(event: kopf.RawEvent, **_: Any) -> None:
        operator.job_event(event["type"], dict(event["object"]))

    return registry


def settings() -> kopf.OperatorSettings:
    """Return how kopf watches."""
    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    # No scan for namespaces and definitions that come and go: docs/decisions/0001-kopf.md.
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.queueing.idle_timeout = 0.1
    settings.queueing.exit_timeout = 0.1
    settings.networking.error_backoffs = RETRY_PAUSES
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.watching.server_timeout = 180
    settings.watching.chunk_size = PAGE
    return settings

"""Events of ImageNetJobs → "look at this job again". The only file that knows kopf.

kopf watches the jobs and calls a handler for each event. That handler is of the low-level kind,
`on.event`: it leaves neither a finalizer nor an annotation on a job, and whatever state it would
keep is nobody's. The two storages that kopf would use for it store nothing, and so cost nothing.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any

import kopf

from imagenet_operator.api.job import GROUP, VERSION
from imagenet_operator.clusters.kubernetes import kinds
from imagenet_operator.clusters.kubernetes.connection import Connection
from imagenet_operator.clusters.kubernetes.operator import Operator


class NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no copy of what was last handled: every pass looks at everything."""

    def build(
        self, *, body: kopf.Body, extra_fields: Iterable[kopf.FieldSpec] | None = None
    ) -> kopf.BodyEssence:
        """Return nothing to compare."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Return nothing."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """Keeps no progress of handlers: there is none between two events."""

    def fetch(self, *, key: kopf.HandlerId, body: kopf.Body) -> kopf.ProgressRecord | None:
        """Return nothing."""
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
        """Leave the job as it is."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Leave the job as it is."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return it as it is: nothing was ever added."""
        return essence


async def start(
    operator: Operator, connection: Connection, namespaces: Sequence[str]
) -> asyncio.Task[None]:
    """Have kopf watch the jobs and tell the operator, until the task is cancelled.

    Args:
        operator: Whom to tell.
        connection: Where the API server is.
        namespaces: Where to watch; everywhere if it is empty.
    """
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # Otherwise kopf calls itself after its user, who has no name in most containers.
    os.environ.setdefault("POD_ID", socket.gethostname())
    # In the end kopf cancels every task but these.
    others = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=_registry(operator, connection),
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
    )
    return asyncio.create_task(kopf.run_tasks(tasks, ignored=others), name="kopf")


def _registry(operator: Operator, connection: Connection) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        connection.renew()
        return kopf.ConnectionInfo(
            server=connection.server,
            ca_path=connection.authority,
            certificate_path=connection.certificate,
            private_key_path=connection.certificate,
            token=connection.bearer(),
        )

    @kopf.on.event(GROUP, VERSION, kinds.JOB.plural, registry=registry)
    async def look_again(event: kopf.RawEvent, **_: Any) -> None:
        operator.job_event(event["type"], dict(event["object"]))

    return registry


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    # Neither new namespaces nor new versions of the resource are looked for.
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.queueing.idle_timeout = 0.1
    settings.queueing.exit_timeout = 0.1
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.watching.server_timeout = 180
    settings.watching.chunk_size = 200
    return settings

"""Runs the points of a sweep on a cluster, as ImageNetJobs.

The operator in the cluster runs them. This module is a client of the API server, and reads only the
status of a job, because volumes are not mounted here.

A sweep lasts for hours, and its jobs run without this client. So an API server that does not
answer, or returns errors, ends a wait only after minutes.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from imagenet_operator.cli.sweep import Outcome, by_status
from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import CONFLICT, ApiError, Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.manifests import volumes
from imagenet_operator.reconcile.policies.job_status import find
from imagenet_operator.scaling.points import Point, PointStatus, point_status
from imagenet_operator.sdk.cluster import is_passing
from imagenet_operator.sdk.interface import OUTAGE_SECONDS, POLL_SECONDS, Outage
from imagenet_spec import stored
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob, Manifest
from imagenet_spec.validate import parse

_CLAIM = objects.BY_NAME["PersistentVolumeClaim"]
Answer = TypeVar("Answer")


class OnCluster:
    """Runs points one after the other, in one namespace; a `Runner`.

    An outage of the API server of up to `outage_seconds` ends no wait.
    """

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        manifest: Manifest,
        context: str,
        poll_seconds: float = POLL_SECONDS,
        outage_seconds: float = OUTAGE_SECONDS,
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._job = parse(manifest)
        self._context = context
        self._poll_seconds = poll_seconds
        self._outage_seconds = outage_seconds

    def get_ready(self, points: Sequence[Point]) -> None:
        asyncio.run(self._get_ready(points))

    def run(self, point: Point) -> Outcome:
        """Create a point's job, or use the existing one, and wait; Ctrl-C ends the wait alone."""
        try:
            return asyncio.run(self._run(point))
        except KeyboardInterrupt:
            return Outcome(point)

    def remedy(self, failed: Sequence[str]) -> str:
        return f"delete them with {self._deletion(failed)}, then run the same command again"

    def _deletion(self, names: Sequence[str]) -> str:
        place = ("--context", self._context, "--namespace", self._namespace)
        return shlex.join(
            ("kubectl", "delete", "imagenetjob", *place, "--ignore-not-found", *names)
        )

    async def _get_ready(self, points: Sequence[Point]) -> None:
        async with Client(self._connection) as client:
            taken = {}
            for point in points:
                found = point_status(parse(point.manifest), await self._stored(client, point))
                if found in (PointStatus.OTHER, PointStatus.FAILED):
                    taken[point.name] = found.value
            if taken:
                listing = ", ".join(f"{name} ({why})" for name, why in taken.items())
                raise ImageNetJobError(
                    f"the cluster has other jobs with these names: {listing}; delete them with "
                    f"{self._deletion(list(taken))}, and try again"
                )
            for claim in volumes.claims(self._job):
                if claim["metadata"]["name"] == volumes.dataset_claim(self._job):
                    # All points share it; it has no owner, so it outlives them.
                    claim["metadata"].pop("ownerReferences", None)
                    await self._create(client, _CLAIM, claim)

    async def _run(self, point: Point) -> Outcome:
        async with Client(self._connection) as client:
            stored = await self._patiently(lambda: self._stored(client, point))
            is_old = stored is not None
            if stored is None:
                await self._patiently(lambda: self._create(client, objects.JOB, point.manifest))
            while (outcome := _outcome(point, stored, is_old)) is None:
                is_old = False
                await asyncio.sleep(self._poll_seconds)
                stored = await self._patiently(lambda: self._stored(client, point))
                if stored is None:
                    return Outcome(point, failure=f"{point.name} was deleted")
            return outcome

    async def _patiently(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Repeat a request until it succeeds, fails permanently, or takes too long."""
        outage = Outage(self._poll_seconds, is_passing, self._outage_seconds)
        try:
            return await outage.ask(ask)
        except ApiError as error:
            if not is_passing(error):
                raise
            raise ClusterError(
                f"{error}; the API server has not answered for {self._outage_seconds:g} seconds; "
                "created jobs continue, and the same command resumes the sweep"
            ) from error

    async def _create(self, client: Client, kind: objects.Kind, manifest: Manifest) -> None:
        """Create an object; a request whose answer was lost may have created it already."""
        metadata = {**manifest["metadata"], "namespace": self._namespace}
        try:
            await client.create(kind.path(self._namespace), {**manifest, "metadata": metadata})
        except ApiError as error:
            if error.code != CONFLICT:
                raise

    async def _stored(self, client: Client, point: Point) -> ImageNetJob | None:
        try:
            found = await client.get(objects.JOB.path(self._namespace, point.name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        # A newer operator may have written it.
        return stored.read(found).job


def _outcome(point: Point, job: ImageNetJob | None, is_old: bool) -> Outcome | None:
    """Return the outcome of a stored job; None while it is not finished."""
    if job is None:
        return None
    found = point_status(parse(point.manifest), job)
    if found is PointStatus.OTHER:
        return Outcome(point, failure=f"{point.name} was replaced by another job")
    if found is PointStatus.SUCCEEDED:
        return Outcome(point, by_status(point, job), is_old=is_old)
    if found is PointStatus.FAILED:
        condition = find(job.status.conditions, "Failed")
        assert condition is not None
        return Outcome(
            point, failure=f"{point.name} failed: {condition.reason}: {condition.message}"
        )
    return None

"""The points of a sweep on a cluster: ImageNetJobs that are made, waited for, and read.

The operator there does the work; here is only a client of the API server, as kubectl is one. All
that is read of a job is its status, since nobody mounts its volumes here: images per second are
those of the whole training, its start and its evaluations included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from imagenet_operator.api import ImageNetJob, Manifest, parse
from imagenet_operator.cli.sweep import Outcome
from imagenet_operator.clusters.kubernetes import kinds
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.connection import Connection
from imagenet_operator.errors import ImageNetJobError
from imagenet_operator.manifests import volumes
from imagenet_operator.reconcile.policies.conditions import find
from imagenet_operator.scaling.figures import Measured
from imagenet_operator.scaling.points import Point
from imagenet_operator.scaling.standing import Standing, standing

_CLAIM = kinds.BY_NAME["PersistentVolumeClaim"]
_LOOK_SECONDS = 2.0


class OnCluster:
    """Runs points one after the other, in one namespace; a `Runner`.

    Args:
        connection: To the API server.
        namespace: Of the jobs.
        manifest: Of the sweep, which describes the dataset's volume.
        look_seconds: Between two looks at a job.
    """

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        manifest: Manifest,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._job = parse(manifest)
        self._look_seconds = look_seconds

    def get_ready(self, points: Sequence[Point]) -> None:
        """Refuse names that are taken, then make the dataset's claim."""
        asyncio.run(self._get_ready(points))

    def run(self, point: Point) -> Outcome:
        """Make a point's job or take the one that is there, and wait for its end.

        Ctrl-C ends the wait; the job goes on.
        """
        try:
            return asyncio.run(self._run(point))
        except KeyboardInterrupt:
            return Outcome(point)

    async def _get_ready(self, points: Sequence[Point]) -> None:
        async with Client(self._connection) as client:
            taken = []
            for point in points:
                found = standing(parse(point.manifest), await self._stored(client, point))
                if found in (Standing.OTHER, Standing.FAILED):
                    taken.append(f"{point.name} ({found.value})")
            if taken:
                raise ImageNetJobError(
                    f"the cluster has jobs in the way: {', '.join(taken)}; delete them with "
                    f"kubectl delete imagenetjob --namespace {self._namespace}, and try again"
                )
            for claim in volumes.claims(self._job):
                if claim["metadata"]["name"] == volumes.data(self._job).claim:
                    await self._make_claim(client, claim)

    async def _make_claim(self, client: Client, claim: Manifest) -> None:
        """Make the claim that all points share; it is nobody's, and outlives them."""
        metadata = {
            key: value for key, value in claim["metadata"].items() if key != "ownerReferences"
        }
        shared = {**claim, "metadata": {**metadata, "namespace": self._namespace}}
        try:
            await client.create(_CLAIM.path(self._namespace), shared)
        except ApiError as error:
            if error.code != 409:
                raise

    async def _run(self, point: Point) -> Outcome:
        async with Client(self._connection) as client:
            stored = await self._stored(client, point)
            is_old = stored is not None
            if stored is None:
                metadata = {**point.manifest["metadata"], "namespace": self._namespace}
                manifest = {**point.manifest, "metadata": metadata}
                await client.create(kinds.JOB.path(self._namespace), manifest)
            while (outcome := _outcome(point, stored, is_old)) is None:
                is_old = False
                await asyncio.sleep(self._look_seconds)
                stored = await self._stored(client, point)
                if stored is None:
                    return Outcome(point, failure=f"{point.name} has been deleted meanwhile")
            return outcome

    async def _stored(self, client: Client, point: Point) -> ImageNetJob | None:
        try:
            found = await client.get(kinds.JOB.path(self._namespace, point.name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return ImageNetJob.model_validate(found)


def _outcome(point: Point, job: ImageNetJob | None, is_old: bool) -> Outcome | None:
    """What a stored job has come to; None while it is not finished."""
    if job is None:
        return None
    found = standing(parse(point.manifest), job)
    if found is Standing.SUCCEEDED:
        return Outcome(point, _measured(point, job), is_old=is_old)
    if found is Standing.FAILED:
        condition = find(job.status.conditions, "Failed")
        assert condition is not None
        return Outcome(
            point, failure=f"{point.name} failed: {condition.reason}: {condition.message}"
        )
    return None


def _measured(point: Point, job: ImageNetJob) -> Measured:
    training, dataset = job.status.training, job.status.dataset
    assert training is not None
    seconds, accuracy = training.clock.seconds, training.accuracy
    images = None if dataset is None else dataset.images.train * job.spec.training.epochs
    return Measured(
        point.strategy,
        point.workers,
        seconds,
        images / seconds if images and seconds else None,
        None if accuracy is None else accuracy.validation,
    )

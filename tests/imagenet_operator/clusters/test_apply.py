"""The order of a decision's parts, and the state that an interruption between any two leaves."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from imagenet_operator.clusters.apply import apply
from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.reconcile.types import Decision, Event, Patch, Reference
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Status
from support import job_table
from support.asynchronous import asynchronous

JOB = job_table.JOBS["defaults"]
STARTED = Status(restarts=1)
DECISION = Decision(
    status=STARTED,
    create=({"name": "one"}, {"name": "two"}, {"kind": "Pod", "name": "three"}),
    delete=(Reference("Pod", "old", "u"),),
    patch=(Patch("Job", "j", "u", {"spec": {}}),),
    events=(Event("Normal", "A", ""), Event("Warning", "B", "")),
)
ORDER = [
    "create one",
    "create two",
    "create three",
    "delete old",
    "patch j",
    "status",
    "event A",
    "event B",
]


class RecordingCluster:
    """A cluster that writes down what is asked of it, and may refuse everything from a point on."""

    def __init__(self, refuse_at: int | None = None) -> None:
        self.done: list[str] = []
        self.statuses: list[Status] = []
        self._refuse_at = refuse_at

    async def _do(self, what: str) -> None:
        await asyncio.sleep(0)
        if len(self.done) == self._refuse_at:
            raise ClusterError("refused")
        self.done.append(what)

    async def create(self, job: ImageNetJob, manifest: dict[str, Any]) -> None:
        await self._do(f"create {manifest['name']}")

    async def delete(self, job: ImageNetJob, reference: Reference) -> None:
        await self._do(f"delete {reference.name}")

    async def patch(self, job: ImageNetJob, patch: Patch) -> None:
        await self._do(f"patch {patch.name}")

    async def write_status(self, job: ImageNetJob) -> None:
        await self._do("status")
        self.statuses.append(job.status)

    async def record_event(self, job: ImageNetJob, event: Event) -> None:
        await self._do(f"event {event.reason}")

    async def observe(self, job: ImageNetJob) -> list[dict[str, Any]]:
        return []

    async def unreachable_nodes(self, job: ImageNetJob) -> frozenset[str]:
        return frozenset()

    async def free_capacity(self, job: ImageNetJob) -> None:
        return None


@asynchronous
async def test_a_decision_is_applied_in_order() -> None:
    cluster = RecordingCluster()

    applied = await apply(cluster, JOB, DECISION)

    assert cluster.done == ORDER
    assert cluster.statuses == [STARTED]
    assert applied.job.status == STARTED


@pytest.mark.parametrize("point", range(len(ORDER)))
@asynchronous
async def test_nothing_is_applied_after_a_refusal(point: int) -> None:
    cluster = RecordingCluster(refuse_at=point)

    with pytest.raises(ClusterError):
        await apply(cluster, JOB, DECISION)

    assert cluster.done == ORDER[:point]


class SlowCluster(RecordingCluster):
    """Finishes no create before all of a step were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[str] = []
        self.together: list[list[str]] = []

    async def create(self, job: ImageNetJob, manifest: dict[str, Any]) -> None:
        self.waiting.append(manifest["name"])
        await asyncio.sleep(0)
        if self.waiting:
            self.together.append(self.waiting)
            self.waiting = []


@asynchronous
async def test_the_creates_of_a_step_run_at_the_same_time_and_pods_come_after_the_others() -> None:
    cluster = SlowCluster()

    await apply(cluster, JOB, DECISION)

    assert cluster.together == [["one", "two"], ["three"]]


class RefusingCluster(RecordingCluster):
    """Refuses every patch."""

    async def patch(self, job: ImageNetJob, patch: Patch) -> None:
        raise ClusterError(f"{patch.name} stays as it is")


@asynchronous
async def test_a_refused_patch_of_a_claim_does_not_keep_the_status_from_being_written() -> None:
    cluster = RefusingCluster()
    owner = Patch("PersistentVolumeClaim", "c", "u", {"metadata": {}})

    applied = await apply(cluster, JOB, Decision(status=STARTED, patch=(owner,)))

    assert [str(error) for error in applied.refused] == ["c stays as it is"]
    assert cluster.statuses == [STARTED]


@asynchronous
async def test_a_refused_patch_of_another_object_is_an_error() -> None:
    cluster = RefusingCluster()

    with pytest.raises(ClusterError, match="j stays as it is"):
        await apply(cluster, JOB, DECISION)

    assert cluster.statuses == []


def slower(status: Status) -> Status:
    assert status.training is not None
    training = status.training.model_copy(update={"images_per_second": 101.0})
    return status.model_copy(update={"training": training})


@pytest.mark.parametrize(
    ("change", "written"),
    [(lambda status: status, False), (slower, False), (lambda _: STARTED, True)],
)
@asynchronous
async def test_a_status_is_written_only_if_it_matters(
    change: Callable[[Status], Status], written: bool
) -> None:
    status = Status.model_validate({"training": {"attempt": 0, "imagesPerSecond": 100.0}})
    job = JOB.model_copy(update={"status": status})
    cluster = RecordingCluster()

    after = (await apply(cluster, job, Decision(status=change(status)))).job

    assert (cluster.done == ["status"]) is written
    assert (after.status == job.status) is not written

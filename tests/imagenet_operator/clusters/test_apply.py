"""The order of a decision's parts, and what a cut between any two of them leaves."""

from collections.abc import Callable
from typing import Any

import pytest

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.status import Status
from imagenet_operator.clusters.apply import apply
from imagenet_operator.clusters.errors import AlreadyExists
from imagenet_operator.reconcile.types import Decision, Event, Patch, Reference
from support import job_table

JOB = job_table.JOBS["defaults"]
STARTED = Status(restarts=1)
DECISION = Decision(
    status=STARTED,
    create=({"name": "one"}, {"name": "two"}),
    delete=(Reference("Pod", "old", "u"),),
    patch=(Patch("Job", "j", "u", {"spec": {}}),),
    events=(Event("Normal", "A", ""), Event("Warning", "B", "")),
)
ORDER = ["create one", "create two", "delete old", "patch j", "status", "event A", "event B"]


class Recorder:
    """A cluster that writes down what is asked of it, and may die of it."""

    def __init__(self, die_at: int | None = None, existing: tuple[str, ...] = ()) -> None:
        self.done: list[str] = []
        self.statuses: list[Status] = []
        self._die_at = die_at
        self._existing = existing

    def _do(self, what: str) -> None:
        if len(self.done) == self._die_at:
            raise ConnectionError("cut")
        self.done.append(what)

    def create(self, manifest: dict[str, Any]) -> None:
        self._do(f"create {manifest['name']}")
        if manifest["name"] in self._existing:
            raise AlreadyExists("Pod", manifest["name"])

    def delete(self, reference: Reference) -> None:
        self._do(f"delete {reference.name}")

    def patch(self, patch: Patch) -> None:
        self._do(f"patch {patch.name}")

    def write_status(self, job: ImageNetJob) -> None:
        self._do("status")
        self.statuses.append(job.status)

    def record_event(self, job: ImageNetJob, event: Event) -> None:
        self._do(f"event {event.reason}")

    def observe(self, job: ImageNetJob) -> list[dict[str, Any]]:
        return []

    def unreachable_nodes(self) -> frozenset[str]:
        return frozenset()

    def free_capacity(self) -> None:
        return None


def test_a_decision_is_applied_in_order() -> None:
    cluster = Recorder()

    job = apply(cluster, JOB, DECISION)

    assert cluster.done == ORDER
    assert cluster.statuses == [STARTED]
    assert job.status == STARTED


@pytest.mark.parametrize("point", range(len(ORDER)))
def test_a_pass_may_be_cut_anywhere(point: int) -> None:
    cluster = Recorder(die_at=point)

    with pytest.raises(ConnectionError):
        apply(cluster, JOB, DECISION)

    assert cluster.done == ORDER[:point]


def test_what_is_there_already_is_what_was_wanted() -> None:
    cluster = Recorder(existing=("one",))

    apply(cluster, JOB, DECISION)

    assert cluster.done == ORDER


def slower(status: Status) -> Status:
    assert status.training is not None
    training = status.training.model_copy(update={"images_per_second": 101.0})
    return status.model_copy(update={"training": training})


@pytest.mark.parametrize(
    ("change", "written"),
    [(lambda status: status, False), (slower, False), (lambda _: STARTED, True)],
)
def test_a_status_is_written_only_if_it_matters(
    change: Callable[[Status], Status], written: bool
) -> None:
    status = Status.model_validate({"training": {"attempt": 0, "imagesPerSecond": 100.0}})
    job = JOB.model_copy(update={"status": status})
    cluster = Recorder()

    after = apply(cluster, job, Decision(status=change(status)))

    assert (cluster.done == ["status"]) is written
    assert (after.status == job.status) is not written

"""The properties of the simulated cluster can fail: each of these faults makes one of them do so.

Each test puts a fault into a policy, and plays a short story that succeeds without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.manifests import attempt, labels, names, protection
from imagenet_operator.reconcile import decide, outcome, uploads
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import cleanup, deadlines, gang, job_status, members
from imagenet_operator.reconcile.types import Attempt, End, Observed, ReconcileSettings
from imagenet_spec.resource import ImageNetJob
from support.job_table import BUCKET, PREPARED, manifest
from support.planted_bugs import (
    deletes_before_it_records,
    does_not_wait_for_former_pods,
    does_not_wait_for_the_dataset,
    forgets_how_members_ended,
    uses_a_number_again,
)
from support.simulated_cluster import SimulatedCluster

Patch = pytest.MonkeyPatch
UPLOAD = ("Job", "digits-publish")


def make() -> SimulatedCluster:
    document = manifest(run_policy={"progressDeadlineSeconds": 300})
    return SimulatedCluster(document, {"a": 3, "b": 3}, ReconcileSettings(disruption_limit=3))


def running() -> SimulatedCluster:
    cluster = make()
    for _ in range(20):
        cluster.turn()
        cluster.reconcile()
    assert len(cluster.running()) == 5
    return cluster


# The stories.


def from_beginning_to_end() -> None:
    make().settle()


def a_member_crashes() -> None:
    cluster = running()
    cluster.exit(cluster.running()[0], 1)
    for _ in range(6):
        cluster.reconcile()
        cluster.now = cluster.next_reconcile or cluster.now
    cluster.settle()


def an_attempt_is_cut_off_and_loses_a_pod() -> None:
    cluster = make()
    while not cluster.created_pods:
        cluster.turn()
        cluster.reconcile(cut_after=3)  # the Service, its NetworkPolicy, one pod
    cluster.vanish(cluster.pending()[0])
    cluster.settle()


def a_finished_worker_vanishes() -> None:
    cluster = running()
    worker = cluster.finishing_workers()[0]
    cluster.exit(worker, 0)
    cluster.reconcile()
    cluster.vanish(worker)
    cluster.settle()


def training_hangs() -> None:
    cluster = running()
    cluster.hung.add(0)
    cluster.settle(limit=200)


def somebody_holds_a_name() -> None:
    cluster = make()
    cluster.occupy("Service", "digits-r0")
    cluster.objects["Service", "digits-r0"]["metadata"]["labels"] = {labels.ATTEMPT: "0"}
    for _ in range(20):
        cluster.turn()
        cluster.reconcile()
    cluster.vacate()
    cluster.settle()


def workers_end_before_those_who_serve_them() -> None:
    cluster = running()
    for worker in cluster.finishing_workers():
        cluster.exit(worker, 0)
    for _ in range(5):
        cluster.reconcile()
        for pod in cluster.terminating():
            cluster.finalize(pod)
    cluster.check_rest()


def members_crash_for_ever() -> None:
    cluster = make()
    for _ in range(400):
        cluster.turn()
        cluster.reconcile()
        for pod in cluster.running()[:1]:
            cluster.exit(pod, 1)
        cluster.now += timedelta(seconds=20)
    cluster.settle()


def members_are_evicted_for_ever() -> None:
    cluster = make()
    for _ in range(400):
        cluster.turn()
        cluster.reconcile()
        for pod in cluster.running()[:1]:
            cluster.evict(pod)
        cluster.now += timedelta(seconds=20)
    cluster.settle()


def publishing(source: dict[str, Any] | None = None) -> SimulatedCluster:
    given = {} if source is None else {"source": source, "volume": None}
    document = manifest(dataset={**given, "publish": {"s3": BUCKET}})
    cluster = SimulatedCluster(document, {"a": 3, "b": 3}, ReconcileSettings())
    cluster.is_sealed = source is not None
    for _ in range(30):
        if UPLOAD in cluster.objects:
            break
        cluster.turn()
        cluster.reconcile()
    return cluster


def a_prepared_dataset_is_published() -> None:
    cluster = publishing(PREPARED)
    cluster.settle()
    cluster.check_rest()


def an_upload_fails() -> None:
    cluster = publishing()
    cluster.fail_job(cluster.objects[UPLOAD])
    cluster.settle()


def an_upload_is_deleted_after_its_end() -> None:
    cluster = publishing()
    for _ in range(3):
        cluster.turn()
        cluster.reconcile()
    cluster.remove(cluster.objects[UPLOAD])
    cluster.reconcile()


def a_job_ends_before_its_upload() -> None:
    cluster = publishing()
    while not decide.is_finished(cluster.status):
        for pod in cluster.pending():
            cluster.bind(pod)
        for pod in cluster.startable():
            cluster.start(pod)
        for pod in cluster.finishing_workers():
            cluster.exit(pod, 0)
        cluster.reconcile()
        cluster.now += timedelta(seconds=20)
    cluster.settle()
    cluster.check_rest()


# The faults.


def counts_every_terminating_pod_as_gone(patch: Patch) -> None:
    def present(found: Attempt) -> list[object]:
        return [member for member in found.members if not member.terminating]

    patch.setattr(Attempt, "present", property(present))


def leaves_members_unprotected(patch: Patch) -> None:
    patch.setattr(Attempt, "is_exposed", False)


def starts_members_unprotected(patch: Patch) -> None:
    patch.setattr(protection, "of_attempt", lambda *_: [])


def completes_what_was_cut_off(patch: Patch) -> None:
    end_attempt = outcome.end_attempt

    def complete(context: ReconcileContext, end: End) -> None:
        if end is not gang.CUT_OFF:
            end_attempt(context, end)
            return
        present = {member.name for member in context.observed.attempts[0].members}
        wanted = attempt.build(context.job, 0)
        context.create(item for item in wanted if item["metadata"]["name"] not in present)

    patch.setattr(outcome, "end_attempt", complete)


def believes_in_any_success(patch: Patch) -> None:
    patch.setattr(
        members, "succeeded", lambda found: any(item.phase == "Succeeded" for item in found)
    )


def never_misses_progress(patch: Patch) -> None:
    patch.setattr(deadlines, "no_progress", lambda *_: None)


def makes_wrong_labels(patch: Patch) -> None:
    patch.setattr(labels, "_checked", lambda found: {**found, labels.APPLICATION: "-"})


def takes_everything_for_its_own(patch: Patch) -> None:
    owner, ours = labels.owner_uid, manifest()["metadata"]["uid"]
    patch.setattr(labels, "owner_uid", lambda item: ours if owner(item) == "other" else owner(item))


def writes_where_the_former_attempt_did(patch: Patch) -> None:
    build = attempt.build

    def beside(*arguments: object) -> list[dict[str, Any]]:
        built = build(*arguments)  # type: ignore[arg-type]
        for pod in built:
            for container in pod["spec"].get("containers", ()):
                container["env"].insert(0, {"name": "IMAGENET_ATTEMPT", "value": "0"})
        return built

    patch.setattr(attempt, "build", beside)


def makes_names_that_are_too_long(patch: Patch) -> None:
    patch.setattr(names, "member", lambda *parts: "-".join(["x" * 60, *map(str, parts[1:])]))


def leaves_members_running(patch: Patch) -> None:
    patch.setattr(cleanup, "leftovers", lambda *_: ())


def tells_of_the_end_again_and_again(patch: Patch) -> None:
    finish = decide.finish

    def talkative(context: ReconcileContext) -> None:
        finish(context)
        context.record_event("Finished", "again")

    patch.setattr(decide, "finish", talkative)


def gives_up_too_early(patch: Patch) -> None:
    patch.setattr(outcome, "limit_reached", lambda *_: ("BackoffLimitExceeded", "enough"))


def never_gives_up(patch: Patch) -> None:
    patch.setattr(outcome, "limit_reached", lambda *_: None)


def uploads_what_is_not_sealed(patch: Patch) -> None:
    patch.setattr(uploads, "is_publishing", lambda job, _: job.status.dataset is not None)


def uploads_without_protection(patch: Patch) -> None:
    patch.setattr(uploads, "missing_protection", lambda _: [])


def leaves_uploads_unprotected(patch: Patch) -> None:
    leftovers = cleanup.leftovers

    def all_protection(policy: Any, observed: Observed, kept: Collection[str]) -> Any:
        return leftovers(policy, observed, kept) + observed.protection

    patch.setattr(cleanup, "leftovers", all_protection)


def fails_with_its_upload(patch: Patch) -> None:
    def fail(context: ReconcileContext, _: object) -> None:
        context.fail("PreparationFailed", "the upload failed")

    patch.setattr(uploads, "record_published", fail)


def publishes_again(patch: Patch) -> None:
    def is_ready(job: ImageNetJob, _: object) -> bool:
        return job_status.holds(job.status.conditions, "DatasetReady")

    patch.setattr(uploads, "is_publishing", is_ready)


def forgets_to_publish(patch: Patch) -> None:
    patch.setattr(uploads, "is_publishing", lambda *_: False)


@pytest.mark.parametrize(
    ("fault", "story", "property_"),
    [
        (does_not_wait_for_the_dataset, from_beginning_to_end, "before the dataset is sealed"),
        (does_not_wait_for_former_pods, a_member_crashes, "attempt 1 beside"),
        (counts_every_terminating_pod_as_gone, a_member_crashes, "attempt 1 beside"),
        (leaves_members_unprotected, a_member_crashes, "go on without protection"),
        (starts_members_unprotected, from_beginning_to_end, "unprotected"),
        (deletes_before_it_records, a_member_crashes, "nothing recorded"),
        (uses_a_number_again, a_member_crashes, "two pods of one name"),
        (
            completes_what_was_cut_off,
            an_attempt_is_cut_off_and_loses_a_pod,
            "two pods of one name",
        ),
        (forgets_how_members_ended, a_finished_worker_vanishes, "of a worker was undone"),
        (believes_in_any_success, a_finished_worker_vanishes, "no true success"),
        (writes_where_the_former_attempt_did, a_member_crashes, "by attempts 0 and 1"),
        (makes_names_that_are_too_long, from_beginning_to_end, "no API server takes"),
        (leaves_members_running, workers_end_before_those_who_serve_them, "run on"),
        (tells_of_the_end_again_and_again, workers_end_before_those_who_serve_them, "no rest"),
        (gives_up_too_early, a_member_crashes, "nothing deserves BackoffLimitExceeded"),
        (never_gives_up, members_crash_for_ever, "too many restarts"),
        (never_gives_up, members_are_evicted_for_ever, "too many disruptions"),
        (never_misses_progress, training_hangs, "the job does not end"),
        (makes_wrong_labels, from_beginning_to_end, "no API server takes"),
        (takes_everything_for_its_own, somebody_holds_a_name, "is not ours"),
        (uploads_what_is_not_sealed, an_upload_fails, "published before the dataset is sealed"),
        (uploads_without_protection, a_prepared_dataset_is_published, "publish: unprotected"),
        (leaves_uploads_unprotected, a_job_ends_before_its_upload, "upload goes on without"),
        (fails_with_its_upload, an_upload_fails, "nothing deserves PreparationFailed"),
        (publishes_again, an_upload_is_deleted_after_its_end, "the end of publishing was undone"),
        (forgets_to_publish, a_prepared_dataset_is_published, "no end of publishing is recorded"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_a_fault_is_found(
    fault: Callable[[Patch], None],
    story: Callable[[], None],
    property_: str,
    monkeypatch: Patch,
) -> None:
    story()
    fault(monkeypatch)
    with pytest.raises(AssertionError, match=property_):
        story()

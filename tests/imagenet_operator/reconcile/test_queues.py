"""A job in a queue of Kueue: it waits without an end, and an eviction costs it nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.manifests.labels import ATTEMPT
from imagenet_operator.reconcile.types import ReconcileSettings
from imagenet_spec.resource import queue
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.time_status import seconds_of
from support.job_stories import (
    EVERYTHING,
    ROOMY,
    Stop,
    condition_of,
    ended_well,
    is_in_attempt,
    is_over,
    play,
    reasons,
)
from support.job_table import BUCKET
from support.simulated_queue import PREEMPTED, QUEUE, QueuedCluster

HOURS = timedelta(hours=3)


def in_queue(**run_policy: Any) -> QueuedCluster:
    settings = ReconcileSettings(disruption_limit=2, manifests=EVERYTHING)
    return QueuedCluster(ROOMY, settings, **run_policy)


def admitted_until(cluster: QueuedCluster, stop: Stop) -> QueuedCluster:
    """Give quota to everything at once until a condition holds."""

    def turn(found: object) -> bool:
        if stop(cluster):
            return True
        cluster.admit()
        return False

    play(cluster, turn)
    return cluster


def wait(cluster: QueuedCluster, time: timedelta = HOURS) -> None:
    """Let hours pass, with a reconcile at each moment that a decision asks for."""
    until = cluster.now + time
    while cluster.now < until:
        cluster.turn()
        cluster.reconcile()
        again = cluster.next_reconcile
        later = cluster.now + timedelta(seconds=60)
        cluster.now = later if again is None else max(again, later)


def is_held(cluster: object) -> bool:
    assert isinstance(cluster, QueuedCluster)
    return bool(cluster.held())


def has_gated_pods(cluster: object) -> bool:
    assert isinstance(cluster, QueuedCluster)
    return any(item["kind"] == "Pod" for item in cluster.held())


def test_a_preparation_waits_without_a_deadline_and_says_so() -> None:
    cluster = in_queue(preparationDeadlineSeconds=600)
    play(cluster, is_held)
    wait(cluster)
    assert cluster.status.phase == "Queued"
    assert condition_of(cluster.status, "DatasetReady") == (
        "False",
        "Queued",
        "Kueue holds the index Job in queue lq",
    )
    (job,) = cluster.held()
    assert job["spec"]["suspend"], "only Kueue lets it go on"
    assert job["metadata"]["labels"].items() >= QUEUE.items()
    admitted_until(cluster, is_in_attempt(0))


def test_an_attempt_in_a_queue_is_never_withdrawn() -> None:
    cluster = in_queue(schedulingPolicy={"scheduleTimeoutSeconds": 100})
    admitted_until(cluster, lambda found: bool(cluster.members()))
    for pod in cluster.members():
        assert pod["metadata"]["labels"].items() >= {**QUEUE, queue.GROUP: "digits-r0"}.items()
        assert pod["metadata"]["annotations"][queue.GROUP_SIZE] == "5"
        assert pod["metadata"]["annotations"][queue.RETRIABLE] == "false"
    wait(cluster)
    assert cluster.status.phase == "Queued"
    assert condition_of(cluster.status, "Running") == ("False", "Queued", "waiting in queue lq")
    assert "GangTimedOut" not in reasons(cluster)
    cluster.admit()
    play(cluster, is_in_attempt(0))
    time = cluster.status.time
    assert time is not None
    assert seconds_of(time.phases)["queued"] >= HOURS.total_seconds() - 120
    assert time.gpu_hours == 0


def test_the_timeout_of_a_gang_begins_when_the_queue_lets_it_go() -> None:
    cluster = in_queue(schedulingPolicy={"scheduleTimeoutSeconds": 100})
    cluster.slots.clear()
    admitted_until(cluster, lambda found: bool(cluster.members()))
    wait(cluster)
    cluster.admit()
    wait(cluster, timedelta(seconds=90))
    assert "GangTimedOut" not in reasons(cluster)
    wait(cluster, timedelta(seconds=120))
    assert "GangTimedOut" in reasons(cluster)


def test_an_eviction_is_charged_to_nobody_and_the_job_goes_on() -> None:
    cluster = in_queue(backoffLimit=0)
    admitted_until(cluster, is_in_attempt(0))
    for number in range(5):
        cluster.evict_all()
        cluster.reconcile()
        play(cluster, has_gated_pods)
        cluster.reconcile()
        assert cluster.status.phase == "Queued"
        training = cluster.status.training
        assert training is not None
        assert training.attempt == number + 1
        cluster.admit()
        play(cluster, is_in_attempt(number + 1))
    counts = (cluster.status.restarts, cluster.status.disruptions, cluster.status.rejecting_nodes)
    assert counts == (0, 0, None)
    said = [event.message for event in cluster.events if event.reason == "EvictedByKueue"]
    assert said[0] == f"attempt 0: evicted by Kueue: {PREEMPTED}"
    cluster.settle()
    assert ended_well(cluster)


def test_a_label_that_changes_counts_from_the_next_attempt_on() -> None:
    cluster = in_queue()
    admitted_until(cluster, is_in_attempt(0))
    former = queues_of(cluster)
    cluster.document["metadata"]["labels"] = {queue.NAME: "other"}
    cluster.reconcile()
    assert queues_of(cluster) == former == {"lq"}
    cluster.evict_all()
    admitted_until(cluster, is_in_attempt(1))
    assert queues_of(cluster) == {"other"}


def queues_of(cluster: QueuedCluster) -> set[str]:
    """Return the queues of the pods that train."""
    return {pod["metadata"]["labels"][queue.NAME] for pod in cluster.members()}


def test_a_suspended_preparation_leaves_the_queue_and_comes_back() -> None:
    cluster = in_queue()
    play(cluster, is_held)
    cluster.admit()
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.admit()
    assert cluster.of_kind("Job") == [], "Kueue would let it go on"
    cluster.suspend(False)
    admitted_until(cluster, is_in_attempt(0))


@pytest.mark.parametrize("labels", [{}, {queue.PRIORITY_CLASS: "high"}])
def test_a_job_without_a_queue_has_no_label_of_kueue(labels: dict[str, str]) -> None:
    settings = ReconcileSettings(manifests=EVERYTHING)
    cluster = QueuedCluster(ROOMY, settings, labels)
    play(cluster, is_in_attempt(0))
    for item in cluster.objects.values():
        metadata = item["metadata"]
        keys = [*(metadata.get("labels") or {}), *(metadata.get("annotations") or {})]
        assert not [key for key in keys if "kueue" in key]


def test_what_names_no_queue_waits_where_kueue_manages_all_until_it_has_a_label() -> None:
    settings = ReconcileSettings(disruption_limit=2, manifests=EVERYTHING)
    cluster = QueuedCluster(ROOMY, settings, {}, manages_all=True, preparationDeadlineSeconds=600)
    play(cluster, is_held)
    (former,) = cluster.held()
    wait(cluster)
    assert cluster.held() == [former]
    *state, message = condition_of(cluster.status, "DatasetReady")
    assert state == ["False", "Queued"]
    assert "holds the index Job, which names no queue" in message
    assert "with the label kueue.x-k8s.io/queue-name" in message
    assert cluster.reconcile().patch == (), "Kueue would suspend it again, without an end"
    relabel(cluster, QUEUE)
    admitted_until(cluster, is_in_attempt(0))
    assert queues_of(cluster) == {"lq"}


def test_an_attempt_that_names_no_queue_waits_where_kueue_manages_all() -> None:
    cluster = QueuedCluster(ROOMY, ReconcileSettings(manifests=EVERYTHING), QUEUE, manages_all=True)
    admitted_until(cluster, lambda found: ("Job", "digits-seal") in cluster.objects)
    cluster.admit()
    cluster.document["metadata"]["labels"] = {}
    play(cluster, has_gated_pods)
    wait(cluster)
    *state, message = condition_of(cluster.status, "Running")
    assert state == ["False", "Queued"]
    assert "holds the attempt, which names no queue" in message
    assert "with the label kueue.x-k8s.io/queue-name" in message
    relabel(cluster, QUEUE)
    admitted_until(cluster, is_in_attempt(1))
    counts = (cluster.status.restarts, cluster.status.disruptions)
    assert counts == (0, 0)


UPLOADS = {
    "publish": ("DatasetPublished", "Published"),
    "upload": ("ModelUploaded", "Uploaded"),
}


def ended_before_its_upload(role: str) -> QueuedCluster:
    """A job that has ended, and of which Kueue holds the upload."""
    cluster = in_queue(startDeadlineSeconds=900)
    spec = cluster.document["spec"]
    if role == "publish":
        spec["dataset"]["publish"] = {"s3": BUCKET}
    else:
        spec["training"]["output"] = {"upload": {"s3": BUCKET}}

    def turn(found: object) -> bool:
        cluster.admit()
        cluster.finish_training()
        upload = cluster.objects.get(("Job", f"digits-{role}"))
        if upload is not None:
            upload["spec"]["suspend"] = True
        return upload is not None and is_over(cluster)

    play(cluster, turn)
    return cluster


@pytest.mark.parametrize("role", UPLOADS)
def test_an_upload_of_an_ended_job_keeps_its_place_in_the_queue(role: str) -> None:
    cluster = ended_before_its_upload(role)
    (job,) = cluster.held()
    wait(cluster)
    condition, done = UPLOADS[role]
    assert condition_of(cluster.status, condition)[:2] == ("False", "Queued")
    assert cluster.held() == [job]
    cluster.admit()
    cluster.settle()
    assert condition_of(cluster.status, condition)[:2] == ("True", done)
    assert ended_well(cluster)


@pytest.mark.parametrize("role", UPLOADS)
def test_an_upload_that_is_held_without_a_queue_is_given_up(role: str) -> None:
    """The next one has the queue that the job has then."""
    cluster = ended_before_its_upload(role)
    (job,) = cluster.held()
    del job["metadata"]["labels"][queue.NAME]
    wait(cluster)
    assert job not in cluster.held()


def relabel(cluster: QueuedCluster, labels: dict[str, str]) -> None:
    """Label a job, suspend it and resume it."""
    cluster.document["metadata"]["labels"] = labels
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.suspend(False)


class GatedCluster(QueuedCluster):
    """No queue; another controller than Kueue holds the members, until `open`."""

    def _add(self, manifest: Manifest) -> Manifest:
        added = super()._add(manifest)
        if added["kind"] == "Pod" and ATTEMPT in added["metadata"]["labels"]:
            added["spec"]["schedulingGates"] = [{"name": "example.com/licence"}]
            held = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
            added["status"] = {"phase": "Pending", "conditions": [held]}
        return added

    def open(self) -> None:
        """Take the gates away."""
        for pod in self.members():
            pod["spec"]["schedulingGates"] = []


def test_no_clock_runs_while_a_gate_of_another_controller_holds_a_member() -> None:
    policy = {"scheduleTimeoutSeconds": 100}
    settings = ReconcileSettings(manifests=EVERYTHING)
    cluster = GatedCluster(ROOMY, settings, {}, schedulingPolicy=policy)
    play(cluster, lambda found: bool(cluster.members()))
    wait(cluster)
    status, reason, _ = condition_of(cluster.status, "Running")
    assert (status, reason) == ("False", "SchedulingGated")
    assert "GangTimedOut" not in reasons(cluster)
    cluster.open()
    play(cluster, is_in_attempt(0))
    cluster.settle()
    assert ended_well(cluster)

"""The condition of a job that waits, and the deadline for image and configuration errors."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.reconcile import explanation
from imagenet_operator.reconcile.policies.job_status import is_worth_a_write
from imagenet_operator.reconcile.types import ObjectEvent
from imagenet_spec.errors import Problem
from support.job_stories import (
    condition_of,
    creating,
    decided,
    is_over,
    is_running,
    make,
    observed,
    play,
    pod,
    reasons,
)
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster

WORKER = "digits-r0-worker-0"


def bound(**run_policy: int) -> SimulatedCluster:
    """A job whose first attempt has nodes, and does not run yet."""
    cluster = creating(**run_policy)
    cluster.reconcile()
    for item in cluster.pending():
        cluster.bind(item)
    cluster.reconcile()
    return cluster


def blocked(reason: str = "ErrImagePull", **run_policy: int) -> SimulatedCluster:
    """The same, with a worker that cannot start."""
    cluster = bound(**run_policy)
    cluster.block(pod(cluster, WORKER), reason, "t:9: not found")
    cluster.reconcile()
    return cluster


def pass_time(cluster: SimulatedCluster, seconds: int) -> None:
    """Let time pass, with reconciles in between."""
    for _ in range(seconds // 10):
        cluster.now += timedelta(seconds=10)
        cluster.reconcile()


def running(cluster: SimulatedCluster) -> tuple[str, str, str]:
    return condition_of(cluster.status, "Running")


def test_a_missing_image_is_in_the_condition_at_once() -> None:
    cluster = blocked()
    status, reason, message = running(cluster)
    assert (status, reason) == ("False", "ImagePullBackOff")
    assert message.startswith(f"{WORKER} on b: ")
    assert_says(message, "cannot be pulled", "t:9: not found", "push")


def test_a_missing_image_is_not_charged_and_fails_the_job_by_its_own_deadline() -> None:
    cluster = blocked(startDeadlineSeconds=300, progressDeadlineSeconds=60)
    pass_time(cluster, 290)
    assert (cluster.status.restarts, cluster.status.phase) == (0, "Starting")
    training = cluster.status.training
    assert training is not None
    assert (training.attempt, training.outcome) == (0, None)
    pass_time(cluster, 10)
    status, reason, message = condition_of(cluster.status, "Failed")
    assert (status, reason) == ("True", "StartDeadlineExceeded")
    assert message.startswith(f"pods could not start for 300 s: {WORKER} on b: the image cannot")
    assert "correct its name (spec.training.image" in message
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)
    assert running(cluster)[1] == "ImagePullBackOff"
    assert reasons(cluster)[-1] == "StartDeadlineExceeded"
    cluster.settle()
    cluster.check_rest()


def refuse_to_start(cluster: SimulatedCluster, attempt: int) -> None:
    """Let an attempt come, and the container runtime not start one of its programs."""
    name = f"digits-r{attempt}-worker-1"
    play(cluster, lambda found: is_over(found) or ("Pod", name) in found.objects)
    if not is_over(cluster):
        for item in cluster.pending():
            cluster.bind(item)
        said = 'exec: "trian": executable file not found in $PATH'
        cluster.exit(pod(cluster, name), 128, said, "StartError")
        cluster.reconcile()


def test_a_program_that_cannot_be_executed_is_not_charged_and_has_the_deadline_of_its_first() -> (
    None
):
    cluster = creating(startDeadlineSeconds=300, backoffLimit=0)
    refuse_to_start(cluster, 0)
    first = cluster.now
    status, reason, message = running(cluster)
    assert (status, reason) == ("False", "RunContainerError")
    assert_says(message, '"trian": executable file not found in $PATH', "correct the template")
    attempts = 1
    while not is_over(cluster):
        refuse_to_start(cluster, attempts)
        attempts += 1
    status, reason, message = condition_of(cluster.status, "Failed")
    assert reason == "StartDeadlineExceeded"
    assert "executable file not found" in message
    assert (cluster.status.restarts, cluster.status.disruptions) == (0, 0)
    assert cluster.now - first >= timedelta(seconds=300)
    assert attempts <= 8, "the waits double"


def test_an_attempt_whose_members_all_run_ends_the_row_of_those_that_could_not_start() -> None:
    cluster = creating(startDeadlineSeconds=300)
    refuse_to_start(cluster, 0)
    assert cluster.status.start_failures_since is not None
    play(cluster, is_running)
    assert cluster.status.start_failures_since is None
    cluster.settle()
    assert (cluster.status.phase, cluster.status.restarts) == ("Succeeded", 0)


def trained(**run_policy: Any) -> SimulatedCluster:
    """A job whose first attempt trained, and whose next one is about to start."""
    cluster = play(creating(startDeadlineSeconds=300, **run_policy), is_running)
    cluster.reconcile()
    cluster.now += timedelta(days=3)
    cluster.evict(cluster.running()[0])
    cluster.reconcile()
    return cluster


@pytest.mark.costly
@pytest.mark.parametrize(("backoff_limit", "waits"), [(1, True), (0, False)])
def test_a_job_that_has_trained_waits_for_a_missing_image_while_it_has_restarts_left(
    backoff_limit: int, waits: bool
) -> None:
    cluster = trained(backoffLimit=backoff_limit)
    name = "digits-r1-worker-1"
    play(cluster, lambda found: ("Pod", name) in found.objects)
    for item in cluster.pending():
        cluster.bind(item)
    cluster.block(pod(cluster, name), "ImagePullBackOff", "not found")
    pass_time(cluster, 7200)
    assert is_over(cluster) is not waits
    if waits:
        assert running(cluster)[:2] == ("False", "ImagePullBackOff")
        cluster.block(pod(cluster, name), "ContainerCreating")
        play(cluster, is_running)


@pytest.mark.parametrize(("backoff_limit", "waits"), [(1, True), (0, False)])
def test_a_job_that_has_trained_waits_for_a_missing_command_while_it_has_restarts_left(
    backoff_limit: int, waits: bool
) -> None:
    cluster = trained(backoffLimit=backoff_limit)
    for attempt in range(1, 12):
        refuse_to_start(cluster, attempt)
    assert is_over(cluster) is not waits


@pytest.mark.parametrize("reason", ["Unschedulable", None], ids=["no node fits", "no scheduler"])
def test_a_gang_that_finds_no_nodes_says_so_in_all_of_its_attempts(reason: str | None) -> None:
    """The alert counts how long one reason lasts; the attempts come and go."""
    cluster = creating(schedulingPolicy={"scheduleTimeoutSeconds": 100})
    found: list[str] = []
    for _ in range(60):
        cluster.reconcile()
        for item in cluster.terminating():
            cluster.finalize(item)
        for item in cluster.pending():
            if reason:
                time = item["metadata"]["creationTimestamp"]
                item["status"]["conditions"] = [
                    {"type": "PodScheduled", "status": "False", "reason": reason,
                     "lastTransitionTime": time}
                ]  # fmt: skip
        cluster.now += timedelta(seconds=10)
        if cluster.status.training is not None:
            found.append(running(cluster)[1])
    training = cluster.status.training
    assert training is not None
    assert training.attempt >= 2, "attempts were withdrawn"
    expected = reason or "NotScheduled"
    assert set(found[found.index(expected) :]) == {expected}
    for item in cluster.pending():
        item["status"]["conditions"] = []
        item["spec"]["nodeName"] = "a"
    cluster.reconcile()
    assert running(cluster)[1] == "ContainerCreating", "they have nodes now"


def test_the_default_deadline_is_ten_minutes() -> None:
    cluster = blocked()
    pass_time(cluster, 590)
    assert not is_over(cluster)
    pass_time(cluster, 10)
    assert is_over(cluster)


def test_a_gang_is_not_withdrawn_while_an_image_is_missing() -> None:
    cluster = creating(schedulingPolicy={"scheduleTimeoutSeconds": 100})
    cluster.reconcile()
    first, *_ = cluster.pending()
    cluster.bind(first)
    cluster.block(first, "InvalidImageName", "T:9:9")
    pass_time(cluster, 200)
    assert "GangTimedOut" not in reasons(cluster)
    for item in cluster.pending():
        cluster.bind(item)
    cluster.block(first, "ContainerCreating")
    pass_time(cluster, 90)
    play(cluster, is_running)
    assert "GangTimedOut" not in reasons(cluster)


def test_an_error_that_is_cured_is_forgotten_and_does_not_count_as_a_hang() -> None:
    cluster = blocked(startDeadlineSeconds=300, progressDeadlineSeconds=60)
    pass_time(cluster, 250)
    cluster.block(pod(cluster, WORKER), "ContainerCreating")
    pass_time(cluster, 50)
    errors = cluster.status.start_errors
    assert errors is not None
    assert (errors.since, cluster.status.restarts) == (None, 0)
    cluster.block(pod(cluster, WORKER), "ErrImagePull", "t:9: not found")
    pass_time(cluster, 290)
    assert cluster.status.phase == "Starting"
    play(cluster, is_running)
    assert (running(cluster)[1], cluster.status.restarts) == ("AllMembersRunning", 0)


def test_a_slow_pull_counts_as_it_did_before() -> None:
    cluster = bound(startDeadlineSeconds=60, progressDeadlineSeconds=300)
    pass_time(cluster, 290)
    assert (cluster.status.start_errors, cluster.status.phase) == (None, "Starting")
    assert running(cluster)[1] == "ContainerCreating"
    pass_time(cluster, 10)
    assert cluster.status.restarts == 1


def test_a_restart_of_the_operator_does_not_forget_the_first_error() -> None:
    cluster = blocked()
    errors = cluster.status.start_errors
    assert errors is not None
    assert errors.since == cluster.now
    cluster.now += timedelta(seconds=600)
    cluster.reconcile()
    assert cluster.status.phase == "Failed"


def test_events_that_cannot_be_read_are_no_cure() -> None:
    cluster = blocked("ContainerCreating")
    cluster.now += timedelta(seconds=30)
    seen = observed(cluster)
    missing = ObjectEvent("FailedMount", 'secret "keys" not found')
    events = {item.uid: missing for item in seen.waiting}
    status = decided(cluster, replace(seen, events=events)).status
    assert status.start_errors is not None
    cluster.document["status"] = status.to_manifest()
    unknown = decided(cluster, replace(seen, events=None)).status
    assert unknown.start_errors == status.start_errors
    cured = decided(cluster, replace(seen, events={})).status.start_errors
    assert cured is not None
    assert cured.since is None


def test_a_suspended_job_does_not_fail_by_it() -> None:
    cluster = blocked()
    cluster.now += timedelta(seconds=700)
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.suspend(False)
    play(cluster, is_running)


def test_a_job_that_a_newer_operator_wrote_does_not_fail_by_it() -> None:
    cluster = blocked()
    cluster.now += timedelta(seconds=700)
    newer = replace(observed(cluster), unsupported=(Problem("spec.new", "is not known"),))
    assert decided(cluster, newer).status.completion_time is None
    assert decided(cluster, observed(cluster)).status.completion_time is not None


def test_pods_of_the_preparation_are_explained_too() -> None:
    cluster = make(startDeadlineSeconds=120)
    cluster.reconcile()
    held = cluster.pend(cluster.objects["Job", "digits-index"])
    cluster.block(held, "InvalidImageName", "T:9:9")
    cluster.reconcile()
    status, reason, message = condition_of(cluster.status, "DatasetReady")
    assert (status, reason) == ("False", "InvalidImageName")
    assert message.startswith(f"{held['metadata']['name']}: the name of the image is invalid")
    pass_time(cluster, 120)
    assert condition_of(cluster.status, "Failed")[1] == "StartDeadlineExceeded"
    assert condition_of(cluster.status, "DatasetReady")[1] == "InvalidImageName"


def test_a_bad_node_does_not_end_a_preparation_whose_other_pods_run() -> None:
    cluster = make(startDeadlineSeconds=120)
    cluster.reconcile()
    working, held = (cluster.pend(cluster.objects["Job", "digits-index"]) for _ in range(2))
    working["status"] = {"phase": "Running"}
    cluster.block(held, "ErrImagePull", "t:9: no space left on device")
    pass_time(cluster, 200)
    assert condition_of(cluster.status, "DatasetReady")[1] == "ImagePullBackOff"
    assert (cluster.status.start_errors, is_over(cluster)) == (None, False)

    working["status"] = {"phase": "Succeeded"}
    cluster.reconcile()
    pass_time(cluster, 110)
    assert not is_over(cluster)
    pass_time(cluster, 10)
    assert condition_of(cluster.status, "Failed")[1] == "StartDeadlineExceeded"


def test_an_unschedulable_pod_of_the_preparation_is_told_within_thirty_seconds() -> None:
    cluster = make()
    cluster.reconcile()
    held = cluster.pend(cluster.objects["Job", "digits-index"])
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    held["status"]["conditions"] = [{**unscheduled, "message": "0/1 nodes are available"}]
    cluster.reconcile()
    assert condition_of(cluster.status, "DatasetReady")[1] == "Indexing"
    due = cluster.next_reconcile
    assert due is not None
    assert due - cluster.now <= timedelta(seconds=30)
    cluster.now = due
    cluster.reconcile()
    assert condition_of(cluster.status, "DatasetReady")[1:] == (
        "Unschedulable",
        f"{held['metadata']['name']}: no node fits the pod: 0/1 nodes are available",
    )


GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}


def long_gated(gate: str | None) -> SimulatedCluster:
    """A gang that waited for an hour and has its gates lifted; a worker has another gate."""
    cluster = creating(schedulingPolicy={"gang": "Wait"})
    created = cluster.now
    cluster.now += timedelta(hours=1)
    cluster.reconcile()
    for item in cluster.members():
        item["status"]["conditions"] = [{**GATED, "lastTransitionTime": created.isoformat()}]
        item["spec"]["schedulingGates"] = []
    if gate is not None:
        pod(cluster, WORKER)["spec"]["schedulingGates"] = [{"name": gate}]
    cluster.reconcile()
    return cluster


def test_a_gang_whose_gates_were_just_lifted_waits_for_the_scheduler_first() -> None:
    cluster = long_gated(None)
    assert running(cluster)[1] == "Scheduling"
    pass_time(cluster, 20)
    assert running(cluster)[1] == "Scheduling"
    pass_time(cluster, 10)
    assert running(cluster)[1] == "NotScheduled"


def test_a_gate_of_another_controller_is_told() -> None:
    cluster = long_gated("example.com/queue")
    _, reason, message = running(cluster)
    assert reason == "SchedulingGated"
    assert_says(message, f"{WORKER}: ", "scheduling gate of another controller")


def test_a_pod_is_creating_its_containers_since_it_has_a_node() -> None:
    cluster = bound()
    cluster.now += timedelta(minutes=5)
    scheduled = {"type": "PodScheduled", "status": "True"}
    for item in cluster.members():
        item["status"]["conditions"] = [{**scheduled, "lastTransitionTime": str(cluster.now)}]
    cluster.now += timedelta(seconds=10)
    cluster.reconcile()
    assert running(cluster)[1] == "Starting"
    pass_time(cluster, 20)
    assert running(cluster)[1] == "ContainerCreating"


def test_an_init_container_that_runs_is_named_and_raises_no_alert() -> None:
    cluster = bound()
    item = pod(cluster, WORKER)
    item["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    states: list[dict[str, Any]] = [
        {"name": name, "state": {"running": {}}} for name in ("proxy", "fetch")
    ]
    item["status"]["initContainerStatuses"] = states
    pass_time(cluster, 30)
    _, reason, message = running(cluster)
    assert reason == "PodInitializing"
    assert_says(message, f"{WORKER} on b", "init container", "fetch")
    assert reason not in explanation.WAITING_REASONS

    item["status"]["initContainerStatuses"] = states[:1]
    cluster.reconcile()
    assert running(cluster)[1] == "ContainerCreating"


def test_a_pod_that_does_not_go_is_what_the_next_attempt_waits_for() -> None:
    cluster = play(make(), is_running)
    held = pod(cluster, WORKER)
    held["metadata"]["finalizers"] = ["example.com/keep"]
    cluster.exit(pod(cluster, "digits-r0-worker-1"), 1)
    cluster.reconcile()
    cluster.reconcile()
    for item in cluster.terminating():
        if item is not held:
            cluster.finalize(item)
    pass_time(cluster, 30)
    status, reason, message = running(cluster)
    assert (status, reason) == ("False", "PodTerminating")
    assert message.startswith(f"{WORKER} on b: ")
    assert_says(message, "over 15 s ago", "finalizers", "example.com/keep")
    before = cluster.status
    pass_time(cluster, 20)
    assert not is_worth_a_write(before, cluster.status)

    cluster.finalize(held)
    cluster.reconcile()
    play(cluster, is_running)
    assert cluster.status.restarts == 1


@pytest.mark.parametrize("seconds", [5, 14])
def test_an_ordinary_start_writes_no_more_statuses(seconds: int) -> None:
    cluster = bound()
    cluster.block(pod(cluster, WORKER), "ContainerCreating")
    before = cluster.status
    cluster.now += timedelta(seconds=seconds)
    cluster.reconcile()
    assert not is_worth_a_write(before, cluster.status)

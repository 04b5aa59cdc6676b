"""Attempts that end, and what each end is charged to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.reconcile import sample as samples
from support.job_stories import (
    ROOMY,
    condition_of,
    ended_well,
    is_in_attempt,
    is_over,
    is_running,
    make,
    names,
    play,
    pod,
    running,
)
from support.job_table import OWN_PROGRAM, manifest
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster
from support.simulated_objects import attempt_of


def test_a_failure_is_charged_and_restarted_under_new_names() -> None:
    cluster = running()
    cluster.exit(pod(cluster, "digits-r0-worker-1"), 1, "loss is NaN")
    decision = cluster.reconcile()
    assert (decision.create, decision.delete) == ((), ())
    assert decision.requeue_after == timedelta(0), "its remaining pods go immediately"
    status = cluster.status
    assert status.training is not None
    assert status.training.outcome is not None
    assert (status.restarts, status.disruptions, status.phase) == (1, 0, "Restarting")
    assert status.training.outcome.reason == "MemberFailed"
    assert status.training.outcome.charged
    assert {item.name: item.exit_code for item in status.training.members}[
        "digits-r0-worker-1"
    ] == 1
    message = cluster.events[-1].message
    assert_says(message, "attempt 0: digits-r0-worker-1 exited with 1", "loss is NaN")
    assert_says(message, "next attempt in ")
    deleted = {item.name for item in cluster.reconcile().delete}
    assert deleted == {*cluster.created_pods, "digits-r0"}
    play(cluster, is_in_attempt(1))
    assert condition_of(cluster.status, "Restarting")[0] == "False"
    cluster.settle()
    assert (cluster.status.phase, cluster.status.restarts) == ("Succeeded", 1)


def test_the_next_attempt_waits_until_no_pod_of_the_former_is_left_and_its_time_has_come() -> None:
    cluster = running()
    cluster.exit(pod(cluster, "digits-r0-server-0"), 134)
    cluster.reconcile()
    cluster.reconcile()
    cluster.now += timedelta(seconds=60)
    assert cluster.reconcile().create == ()
    for item in cluster.terminating():
        cluster.finalize(item)
    assert len(cluster.reconcile().create) == 8

    cluster = running()
    fail(cluster, 0)
    play(cluster, is_in_attempt(1))
    cluster.exit(pod(cluster, "digits-r1-server-0"), 134)
    cluster.reconcile()
    cluster.reconcile()
    for item in cluster.terminating():
        cluster.finalize(item)
    decision = cluster.reconcile()
    assert decision.create == ()
    assert decision.requeue_after is not None
    assert timedelta(seconds=7) < decision.requeue_after <= timedelta(seconds=10)
    cluster.now += decision.requeue_after
    assert len(cluster.reconcile().create) == 8


def test_the_next_attempt_does_not_wait_for_the_deletion_of_pods_that_have_ended() -> None:
    cluster = running()
    cluster.exit(pod(cluster, "digits-r0-server-0"), 134)
    cluster.reconcile()
    cluster.reconcile()
    *others, last = cluster.running()
    for item in others:
        cluster.exit(item, 143)
    assert cluster.reconcile().create == ()
    cluster.exit(last, 143)
    assert len(cluster.reconcile().create) == 8
    assert len(cluster.terminating()) == 5, "the former pods are still being deleted"


def fail(cluster: SimulatedCluster, attempt: int, *, trained: int = 0) -> float:
    """Let an attempt fail after so many seconds of new steps; return the wait for the next one."""
    play(cluster, is_in_attempt(attempt))
    cluster.reconcile()
    cluster.now += timedelta(seconds=trained)
    cluster.exit(pod(cluster, f"digits-r{attempt}-worker-0"), 1)
    cluster.reconcile()
    assert cluster.status.training is not None
    start = cluster.status.training.next_attempt_time
    assert start is not None
    return (start - cluster.now).total_seconds()


def test_the_wait_grows_with_each_failure_until_new_steps_are_trained() -> None:
    cluster = running(backoffLimit=9)
    trained = (0, 0, 0, 600, 0, 600)
    waits = [fail(cluster, number, trained=seconds) for number, seconds in enumerate(trained)]
    expected = (0, 10, 20, 0, 10, 0)
    assert all(
        whole * 0.75 <= wait <= whole for wait, whole in zip(waits, expected, strict=True)
    ), waits
    assert cluster.status.restarts == 6, "each counts towards backoffLimit"


@pytest.mark.parametrize(("trained", "is_at_once"), [(0, False), (600, True)])
def test_a_disruption_neither_ends_nor_prolongs_a_row_of_failures(
    trained: int, is_at_once: bool
) -> None:
    cluster = running()
    fail(cluster, 0)
    play(cluster, is_in_attempt(1))
    cluster.reconcile()
    cluster.now += timedelta(seconds=trained)
    cluster.evict(pod(cluster, "digits-r1-worker-0"))
    cluster.reconcile()
    assert (fail(cluster, 2) == 0) == is_at_once


def test_the_last_failure_is_one_too_many() -> None:
    cluster = make(backoffLimit=1)
    for number in range(2):
        play(cluster, is_in_attempt(number))
        cluster.exit(pod(cluster, f"digits-r{number}-worker-0"), 1, "out of luck")
        cluster.reconcile()
    play(cluster, is_over)
    status, reason, message = condition_of(cluster.status, "Failed")
    assert (status, reason) == ("True", "BackoffLimitExceeded")
    assert_says(message, "backoffLimit 1 is reached", "attempt 1: digits-r1-worker-0")
    assert_says(message, "exited with 1", "out of luck")
    assert (cluster.status.restarts, cluster.status.phase) == (1, "Failed")
    cluster.settle()
    assert cluster.running() == []


@pytest.mark.parametrize("code", [2, 3])
def test_a_permanent_failure_spends_no_restart(code: int) -> None:
    cluster = running(backoffLimit=6)
    cluster.exit(pod(cluster, "digits-r0-worker-0"), code, "no checkpoint there")
    cluster.settle()
    assert condition_of(cluster.status, "Failed")[:2] == ("True", "PermanentFailure")
    assert (cluster.status.restarts, len(cluster.created_pods)) == (0, 5)


@pytest.mark.parametrize(
    ("member", "restarts"), [("digits-r0-worker-0", 1), ("digits-r0-server-0", 0)]
)
def test_only_programs_of_ours_say_by_their_code_that_a_retry_is_of_no_use(
    member: str, restarts: int
) -> None:
    """Elsewhere 2 is how Go ends after a panic, and a shell after a mistake in its script."""
    cluster = SimulatedCluster(manifest(training=OWN_PROGRAM), ROOMY)
    play(cluster, is_running)
    cluster.exit(pod(cluster, member), 2, "panic: no route to host")
    cluster.reconcile()
    assert (cluster.status.restarts, is_over(cluster)) == (restarts, restarts == 0)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    "request_end", [SimulatedCluster.evict, SimulatedCluster.terminate], ids=["evicted", "deleted"]
)
def test_a_program_that_saves_and_exits_with_0_at_sigterm_has_not_succeeded(
    request_end: Callable[[SimulatedCluster, Any], None], replicas: int
) -> None:
    training = {**OWN_PROGRAM, "workers": {**OWN_PROGRAM["workers"], "replicas": replicas}}
    strategy = {"single": {}} if replicas == 1 else {"horovod": {"slotsPerWorker": 1}}
    cluster = SimulatedCluster(manifest(training={**training, "strategy": strategy}), ROOMY)
    play(cluster, is_running)
    last = pod(cluster, f"digits-r0-worker-{replicas - 1}")
    request_end(cluster, last)
    # The operator looks only after the exit.
    cluster.now += timedelta(seconds=2)
    cluster.save_and_exit(last)
    cluster.reconcile()
    assert (cluster.status.restarts, is_over(cluster)) == (0, False)
    play(cluster, is_in_attempt(1))
    cluster.settle()
    assert cluster.status.phase == "Succeeded"
    assert_says(condition_of(cluster.status, "Succeeded")[2], "attempt 1", "exited with 0")


def reject(cluster: SimulatedCluster, attempt: int) -> float:
    """Let a kubelet reject a pod of an attempt at once; return the wait for the next one."""
    play(cluster, lambda found: bool(is_created(found, attempt)))
    last = is_created(cluster, attempt)[-1]
    last["spec"]["nodeName"] = "b"
    last["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Pod was rejected: no healthy devices",
    }
    cluster.disruptions += 1
    cluster.reconcile()
    assert cluster.status.training is not None
    start = cluster.status.training.next_attempt_time
    assert start is not None
    return (start - cluster.now).total_seconds()


def is_created(cluster: SimulatedCluster, attempt: int) -> list[dict[str, Any]]:
    training = cluster.status.training
    is_live = training is not None and training.attempt == attempt and training.outcome is None
    return [item for item in cluster.members() if is_live and attempt_of(item) == attempt]


def test_attempts_that_kubelets_reject_back_off_and_prefer_other_nodes() -> None:
    cluster = make()
    cluster.settings = replace(cluster.settings, disruption_limit=100)
    waits = [reject(cluster, number) for number in range(9)]
    expected = (5, 10, 20, 40, 80, 160, 320, 360, 360)
    assert all(
        whole <= wait <= whole * 1.5 + 1 for whole, wait in zip(expected, waits, strict=True)
    ), waits
    assert cluster.status.rejecting_nodes == ("b",)
    assert "the kubelet of b rejected digits-r8-worker-1" in cluster.events[-1].message
    play(cluster, is_in_attempt(9))
    (term,) = pod(cluster, "digits-r9-worker-0")["spec"]["affinity"]["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["preference"] == {
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}]
    }
    disrupt(cluster, 9, trained=60)
    assert cluster.status.rejecting_nodes is None, "it may work again"


def disrupt(cluster: SimulatedCluster, attempt: int, *, trained: int = 0) -> float:
    """Evict a member after so many seconds of new steps; return the wait for the next attempt."""
    play(cluster, is_in_attempt(attempt))
    cluster.reconcile()
    cluster.now += timedelta(seconds=trained)
    cluster.evict(pod(cluster, f"digits-r{attempt}-worker-0"))
    cluster.reconcile()
    assert cluster.status.training is not None
    start = cluster.status.training.next_attempt_time
    assert start is not None
    return (start - cluster.now).total_seconds()


def test_the_first_disruption_since_an_attempt_trained_waits_for_nothing() -> None:
    cluster = running(backoffLimit=9)
    assert 5 <= disrupt(cluster, 0) <= 8, "nothing has trained yet"
    assert disrupt(cluster, 1, trained=60) == 0
    assert 5 <= disrupt(cluster, 2) <= 8, "it is the second one"
    assert fail(cluster, 3, trained=60) == 0
    assert disrupt(cluster, 4) == 0, "attempt 3 trained"


@pytest.mark.parametrize(("minutes", "is_at_once"), [(9, False), (11, True)])
def test_a_program_without_metrics_has_progressed_after_ten_minutes(
    minutes: int, is_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimulatedCluster(manifest(training=OWN_PROGRAM), ROOMY)
    monkeypatch.setattr(cluster, "sample", lambda: None)
    assert (disrupt(cluster, 0, trained=60 * minutes) == 0) is is_at_once


def test_the_limit_of_disruptions_starts_again_with_progress() -> None:
    """A preemption every 6 hours must not end a job of weeks."""
    cluster = running(backoffLimit=0)
    for number in range(5):
        disrupt(cluster, number, trained=60)
    assert (cluster.status.disruptions, cluster.status.consecutive_disruptions) == (5, 1)
    cluster.settle()
    assert ended_well(cluster)


def test_disruptions_are_not_charged_but_have_a_limit() -> None:
    cluster = make(backoffLimit=0)
    for number in range(3):
        play(cluster, is_in_attempt(number))
        cluster.evict(pod(cluster, f"digits-r{number}-worker-0"))
        cluster.reconcile()
        assert cluster.status.restarts == 0
    status, reason, message = condition_of(cluster.status, "Failed")
    assert (status, reason) == ("True", "DisruptionLimitExceeded")
    assert_says(message, "disrupted more than 2 times", "attempt 2: digits-r2-worker-0")
    assert message.endswith(" disrupted: EvictionByEvictionAPI")
    assert cluster.status.disruptions == 2


def test_a_pod_on_a_node_out_of_reach_does_not_hold_up_the_next_attempt() -> None:
    cluster = running({"a": 3, "b": 3, "c": 3})
    cluster.lose("b")
    cluster.evict_from_lost_nodes()
    cluster.reconcile()
    cluster.reconcile()
    for item in cluster.terminating():
        cluster.finalize(item)
    play(cluster, is_in_attempt(1))
    assert {item["metadata"]["name"] for item in cluster.members()} >= {
        "digits-r0-worker-0",
        "digits-r1-worker-0",
    }
    cluster.recover("b")
    cluster.settle()
    assert ended_well(cluster)


def test_a_crash_because_of_a_node_out_of_reach_is_not_charged() -> None:
    cluster = running({"a": 3, "b": 3, "c": 3}, backoffLimit=0)
    cluster.lose("b")
    cluster.exit(cluster.running()[0], 1, "a worker is gone")
    cluster.reconcile()
    assert (cluster.status.phase, cluster.status.disruptions) == ("Restarting", 1)
    assert condition_of(cluster.status, "Restarting")[1] == "NodeLost"
    cluster.settle()
    assert ended_well(cluster)


def test_a_hang_because_of_a_node_out_of_reach_is_not_charged() -> None:
    cluster = running({"a": 3, "b": 3, "c": 3}, backoffLimit=0, progressDeadlineSeconds=100)
    cluster.lose("b")
    cluster.now += timedelta(seconds=100)
    cluster.reconcile()
    assert (cluster.status.phase, cluster.status.disruptions) == ("Restarting", 1)
    cluster.settle()
    assert ended_well(cluster)


def test_a_hang_in_which_every_pod_runs_is_ended_and_charged() -> None:
    cluster = running(progressDeadlineSeconds=300)
    cluster.hung.add(0)
    play(cluster, is_in_attempt(1))
    assert cluster.status.restarts == 1
    assert "attempt 0: training did not progress for 300 s" in cluster.events[-3].message
    cluster.settle()
    assert ended_well(cluster)


def falls_silent(cluster: SimulatedCluster, patch: pytest.MonkeyPatch, attempt: int) -> None:
    """Let the operator come back, and from now on none of an attempt's members answer it."""
    since = cluster.now
    patch.setattr(
        cluster,
        "sample",
        lambda: samples.Sample(taken_at=cluster.now, asked=attempt, silent_since=since),
    )


def test_a_hang_is_ended_by_an_operator_that_never_heard_its_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = running(progressDeadlineSeconds=300)
    cluster.reconcile()
    cluster.now += timedelta(seconds=250)
    falls_silent(cluster, monkeypatch, 0)
    assert cluster.reconcile().requeue_after == timedelta(seconds=300)
    cluster.now += timedelta(seconds=299)
    cluster.reconcile()
    assert cluster.status.phase == "Running"
    cluster.now += timedelta(seconds=1)
    cluster.reconcile()
    assert (cluster.status.phase, cluster.status.restarts) == ("Restarting", 1)
    assert "attempt 0: no worker answered for 300 s" in cluster.events[-1].message


def test_the_next_attempt_is_not_judged_by_what_the_former_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = running(progressDeadlineSeconds=300)
    cluster.reconcile()
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.now += timedelta(hours=1)
    cluster.suspend(False)
    falls_silent(cluster, monkeypatch, 1)
    cluster.reconcile()
    play(cluster, is_in_attempt(1))
    for _ in range(5):
        cluster.now += timedelta(hours=1)
        cluster.reconcile()
    assert (cluster.status.phase, cluster.status.restarts) == ("Running", 0)


def test_without_a_sampler_nothing_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = running(progressDeadlineSeconds=300)
    cluster.reconcile()
    monkeypatch.setattr(cluster, "sample", lambda: None)
    cluster.now += timedelta(days=1)
    cluster.reconcile()
    assert (cluster.status.phase, cluster.status.restarts) == ("Running", 0)


@pytest.mark.parametrize("kind", ["Service", "NetworkPolicy", "PodDisruptionBudget"])
def test_what_members_share_is_made_again_if_it_is_lost(kind: str) -> None:
    cluster = running()
    cluster.remove(cluster.objects[kind, "digits-r0"])
    cluster.reconcile()
    assert (kind, "digits-r0") in cluster.objects
    assert cluster.status.restarts == 0


def test_what_protects_the_preparation_is_made_again_if_it_is_lost() -> None:
    cluster = play(make(), lambda found: "digits-pack" in names(found, "Job"))
    cluster.remove(cluster.objects["NetworkPolicy", "digits-preparation"])
    decision = cluster.reconcile()
    assert [item["metadata"]["name"] for item in decision.create] == ["digits-preparation"]


def test_members_on_their_way_out_stay_protected() -> None:
    cluster = running()
    cluster.exit(pod(cluster, "digits-r0-worker-1"), 1)
    cluster.reconcile()
    gone = {item.kind for item in cluster.reconcile().delete}
    assert gone == {"Pod", "Service", "PodDisruptionBudget"}
    for item in cluster.terminating():
        cluster.finalize(item)
    assert {item.kind for item in cluster.reconcile().delete} == {"NetworkPolicy"}

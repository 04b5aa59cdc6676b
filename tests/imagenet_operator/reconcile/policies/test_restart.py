"""When members end their attempt, and who pays for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.reconcile.policies import members
from imagenet_operator.reconcile.types import Charge, End, MemberPod, Phase
from support.attempt_members import NOW, later, recorded, seen
from support.sentences import assert_says

GRACE_PERIOD = timedelta(seconds=60)
GANG = ("scheduler-0", "server-0", "worker-0", "worker-1")


def failed(name: str, code: int | None, **fields: Any) -> MemberPod:
    return seen(name, Phase.FAILED, exit_code=code, **fields)


def done(name: str, ago: float = 0) -> MemberPod:
    return seen(name, Phase.SUCCEEDED, exit_code=0, finished_at=later(-ago))


def judge(*unusual: MemberPod, gone: tuple[str, ...] = ()) -> tuple[Charge, str, str] | None:
    """The verdict on a gang that runs, but for some of its members."""
    pods = {name: seen(name) for name in GANG if name not in gone}
    pods |= {pod.name: pod for pod in unusual}
    record = members.recorded([recorded(name) for name in GANG], pods, NOW)
    end = members.verdict(record, pods, GRACE_PERIOD, NOW)
    return None if end is None else (end.charge, end.reason, end.message)


def test_a_gang_that_runs_goes_on() -> None:
    assert judge() is None


@pytest.mark.parametrize("name", GANG)
def test_any_member_that_fails_is_charged(name: str) -> None:
    log = "Traceback (most recent call last):\n  File x\nout of luck\n"
    assert judge(failed(name, 1, message=log)) == (
        Charge.FAILURE,
        "MemberFailed",
        f"{name} exited with 1: out of luck",
    )


def test_sigkill_is_named_and_not_what_the_log_happened_to_say() -> None:
    found = judge(failed("worker-1", 137, message="epoch 3: loss 0.1"))
    assert found is not None
    assert found[2].startswith("worker-1 was killed by SIGKILL (exit code 137)")
    assert "loss" not in found[2]
    out_of_memory = failed("worker-1", 137, reason="OOMKilled", message="raise the limit")
    found = judge(out_of_memory)
    assert found is not None
    assert_says(found[2], "worker-1", "137", "raise the limit")


@pytest.mark.parametrize("code", [134, 137, 143, 139, None])
def test_signals_alone_are_failures_too(code: int | None) -> None:
    verdict = judge(failed("server-0", code))
    assert verdict is not None
    assert verdict[0] is Charge.FAILURE


@pytest.mark.parametrize("code", [2, 3])
def test_what_a_retry_would_repeat_is_permanent(code: int) -> None:
    verdict = judge(failed("worker-0", 1), failed("worker-1", code, message="no such option"))
    assert verdict == (
        Charge.PERMANENT,
        "PermanentFailure",
        f"worker-1 exited with {code}: no such option",
    )


def test_a_worker_without_room_on_the_volume_waits_for_it_whatever_its_peers_do() -> None:
    verdict = judge(failed("server-0", 1), failed("worker-1", 4, message="77 are free"))
    assert verdict is not None
    *state, message = verdict
    assert state == [Charge.FULL_VOLUME, "VolumeFull"]
    assert_says(message, "waiting for room", "output volume", "worker-1 exited with 4: 77 are free")


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (failed("worker-1", 143, disrupted="PreemptionByScheduler"), "PreemptionByScheduler"),
        (failed("worker-1", None, disrupted="Evicted"), "Evicted"),
        (seen("worker-1", disrupted="EvictionByEvictionAPI"), "EvictionByEvictionAPI"),
        (seen("worker-1", terminating=True), "Deleted"),
        (seen("worker-1", Phase.PENDING, terminating=True), "Deleted"),
        (failed("worker-1", 143, terminating=True), "Deleted"),
        (failed("worker-1", 137, terminating=True), "Deleted"),
        (seen("worker-1", terminating=True, gone=True), "NodeLost"),
        (seen("worker-1", uid="another"), "Replaced"),
    ],
)
def test_what_the_cluster_does_is_not_charged(pod: MemberPod, reason: str) -> None:
    assert judge(pod) == (Charge.DISRUPTION, reason, f"worker-1 was disrupted: {reason}")


@pytest.mark.parametrize(
    ("reason", "message", "words"),
    [
        (
            "UnexpectedAdmissionError",
            "Pod was rejected: Allocate failed due to no healthy devices",
            "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to no healthy devices",
        ),
        ("OutOfcpu", None, "OutOfcpu"),
        ("TopologyAffinityError", None, "TopologyAffinityError"),
        (
            "Evicted",
            "Pod was rejected: The node had condition: [DiskPressure]",
            "Evicted: Pod was rejected: The node had condition: [DiskPressure]",
        ),
    ],
)
def test_a_pod_that_a_kubelet_rejects_names_the_node(
    reason: str, message: str | None, words: str
) -> None:
    pod = failed("worker-1", None, disrupted=reason, message=message, node="n7")
    verdict = judge(pod)
    assert verdict is not None
    assert verdict[:2] == (Charge.DISRUPTION, reason)
    assert_says(verdict[2], "kubelet of n7 rejected worker-1", words, "prefers other nodes")
    record = members.recorded([recorded("worker-1", "Pending")], {"worker-1": pod}, NOW)
    assert members.rejecting_nodes(record) == ["n7"]


def test_a_pod_that_ran_was_not_rejected() -> None:
    pod = failed("worker-1", 143, disrupted="NodeShutdown", node="n7", started_at=NOW)
    verdict = judge(pod)
    assert verdict is not None
    assert verdict[2] == "worker-1 was disrupted: NodeShutdown"


def test_an_eviction_for_the_own_use_of_storage_is_charged_under_its_name() -> None:
    pod = failed("worker-1", 137, reason="StorageLimitExceeded", message="wrote too much")
    assert judge(failed("worker-0", 1), pod) == (
        Charge.FAILURE,
        "StorageLimitExceeded",
        "worker-1 was evicted: wrote too much",
    )


def test_a_pod_that_vanished_is_not_charged() -> None:
    verdict = judge(gone=("server-0",))
    assert verdict == (Charge.DISRUPTION, "Vanished", "server-0 was disrupted: Vanished")


def test_a_disruption_excuses_the_others() -> None:
    verdict = judge(failed("worker-0", 1), failed("server-0", 3), gone=("worker-1",))
    assert verdict is not None
    assert verdict[0] is Charge.DISRUPTION


CRASH = End("MemberFailed", "worker-0 exited with 1", Charge.FAILURE)
LOST = End("NodeLost", "server-0 is on a node that cannot be reached; it hangs", Charge.DISRUPTION)


@pytest.mark.parametrize("charge", [Charge.FAILURE, Charge.PERMANENT])
def test_a_node_out_of_reach_excuses_what_follows_from_it(charge: Charge) -> None:
    lost = {"server-0": seen("server-0", out_of_reach=True), "worker-0": seen("worker-0")}
    record = [recorded("worker-0"), recorded("server-0")]
    assert members.excused(End("Any", "it hangs", charge), record, lost) == LOST


@pytest.mark.parametrize("charge", [Charge.WITHDRAWAL, Charge.SUSPENSION, Charge.DISRUPTION])
def test_what_is_not_charged_needs_no_excuse(charge: Charge) -> None:
    end = End("Any", "no room", charge)
    lost = {"server-0": seen("server-0", out_of_reach=True)}
    assert members.excused(end, [recorded("server-0")], lost) is end


def test_a_member_that_had_ended_before_its_node_went_excuses_nothing() -> None:
    pods = {"server-0": seen("server-0", out_of_reach=True), "worker-0": seen("worker-0")}
    record = [recorded("worker-0"), recorded("server-0", "Succeeded")]
    assert members.excused(CRASH, record, pods) is CRASH
    assert members.excused(CRASH, record, {}) is CRASH


def test_a_crash_is_charged_even_if_the_pod_is_deleted_afterwards() -> None:
    verdict = judge(failed("worker-1", 1, terminating=True))
    assert verdict is not None
    assert verdict[0] is Charge.FAILURE


def test_a_worker_that_finished_may_go() -> None:
    assert judge(done("worker-0")) is None
    finished = seen("worker-0", Phase.SUCCEEDED, exit_code=0, terminating=True)
    assert judge(finished) is None


def stopped(name: str, **fields: Any) -> MemberPod:
    """A pod whose program exited with 0 after its eviction or deletion was requested."""
    return seen(name, Phase.SUCCEEDED, exit_code=0, cut_short=True, **fields)


RESULT = '{"epochs": 10}'
DELETED = (Charge.DISRUPTION, "Deleted", "worker-1 was disrupted: Deleted")


@pytest.mark.parametrize(
    ("pods", "verdict"),
    [
        pytest.param([stopped("worker-1", terminating=True)], DELETED, id="deleted"),
        pytest.param(
            [stopped("worker-1", disrupted="Evicted")],
            (Charge.DISRUPTION, "Evicted", "worker-1 was disrupted: Evicted"),
            id="evicted",
        ),
        pytest.param(
            [stopped("server-0", terminating=True)],
            (Charge.DISRUPTION, "Deleted", "server-0 was disrupted: Deleted"),
            id="server",
        ),
        pytest.param(
            [done("worker-0"), stopped("worker-1", terminating=True)], DELETED, id="last worker"
        ),
        # Only what a program of ours says counts, and only that it is done.
        pytest.param(
            [stopped("worker-1", terminating=True, message=RESULT)], DELETED, id="own words"
        ),
        pytest.param(
            [stopped("worker-1", terminating=True, leaves_result=True, message="stopping")],
            DELETED,
            id="ours, without a result",
        ),
        pytest.param(
            [stopped("worker-1", terminating=True, leaves_result=True, message=RESULT)],
            None,
            id="ours, with its result",
        ),
        pytest.param(
            [
                seen("worker-0", leaves_result=True, message=RESULT),
                stopped("worker-1", terminating=True, leaves_result=True),
            ],
            None,
            id="ours, with the result of rank 0",
        ),
    ],
)
def test_an_exit_with_0_after_the_request_is_a_disruption(
    pods: list[MemberPod], verdict: tuple[Charge, str, str] | None
) -> None:
    assert judge(*pods) == verdict


def test_a_recorded_success_is_never_taken_back() -> None:
    record = [recorded("worker-0", "Succeeded"), recorded("worker-1")]
    pods = {
        "worker-0": stopped("worker-0", disrupted="Evicted", terminating=True),
        "worker-1": seen("worker-1"),
    }
    after = members.recorded(record, pods, NOW)
    assert after[0] == record[0]
    assert members.verdict(after, pods, GRACE_PERIOD, NOW, own_program=True) is None


@pytest.mark.parametrize("name", ["scheduler-0", "server-0"])
def test_a_helper_may_leave_shortly_before_the_last_worker(name: str) -> None:
    assert judge(done(name, ago=59)) is None
    assert judge(done(name, ago=60)) == (
        Charge.FAILURE,
        "MemberEndedEarly",
        f"{name} exited with 0 while a worker still runs",
    )


def test_the_moment_is_that_of_the_first_who_left() -> None:
    record = [
        recorded("scheduler-0", "Succeeded", finished_at=later(-10)),
        recorded("server-0", "Succeeded", finished_at=later(-20)),
        recorded("worker-0"),
    ]
    assert members.helper_deadline(record, GRACE_PERIOD) == later(40)
    assert members.helper_deadline(record[:2], GRACE_PERIOD) is None
    assert (
        members.helper_deadline([recorded("server-0"), recorded("worker-0")], GRACE_PERIOD) is None
    )

"""Members: their record only moves forward; success without a result; words for memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.manifests import attempt
from imagenet_operator.reconcile.policies import members
from imagenet_operator.reconcile.types import Charge, MemberPod, Phase
from imagenet_spec.resource.status import MemberStatus, ReplicaStatus, TrainingStatus
from support.attempt_members import NOW, later, recorded, seen
from support.job_table import JOBS


def after(former: MemberStatus, pod: MemberPod | None) -> MemberStatus:
    (found,) = members.recorded([former], {} if pod is None else {pod.name: pod}, NOW)
    return found


def test_every_pod_of_an_attempt_is_planned() -> None:
    planned = members.planned(attempt.build(JOBS["defaults"], 3))
    assert [(item.name, item.role, item.phase, item.uid) for item in planned] == [
        ("digits-r3-scheduler-0", "scheduler", "Pending", None),
        ("digits-r3-server-0", "server", "Pending", None),
        ("digits-r3-server-1", "server", "Pending", None),
        ("digits-r3-worker-0", "worker", "Pending", None),
        ("digits-r3-worker-1", "worker", "Pending", None),
    ]


NEW = recorded("worker-0", "Pending", uid=None)
BEFORE = recorded("worker-0")


@pytest.mark.parametrize(
    ("former", "pod", "phase", "reason"),
    [
        pytest.param(NEW, seen("worker-0", Phase.PENDING), "Pending", None, id="waits"),
        pytest.param(NEW, seen("worker-0", Phase.BOUND), "Pending", None, id="has a node"),
        pytest.param(NEW, seen("worker-0"), "Running", None, id="runs"),
        pytest.param(NEW, None, "Unknown", "Vanished", id="was never seen"),
        pytest.param(BEFORE, None, "Unknown", "Vanished", id="is gone"),
        pytest.param(BEFORE, seen("worker-0", uid="new"), "Unknown", "Replaced", id="is another"),
        pytest.param(
            BEFORE, seen("worker-0", terminating=True), "Running", None, id="is being deleted"
        ),
        pytest.param(
            BEFORE,
            seen("worker-0", terminating=True, gone=True),
            "Unknown",
            "NodeLost",
            id="is on a lost node",
        ),
        pytest.param(
            BEFORE,
            seen("worker-0", Phase.FAILED, reason="Error", disrupted="Evicted"),
            "Failed",
            "Evicted",
            id="was evicted",
        ),
    ],
)
def test_what_is_recorded_of_a_pod(
    former: MemberStatus, pod: MemberPod | None, phase: str, reason: str | None
) -> None:
    found = after(former, pod)
    assert (found.phase, found.reason) == (phase, reason)
    assert (found.finished_at is None) == (phase in ("Pending", "Running"))


def test_an_end_is_recorded_with_all_that_the_pod_tells() -> None:
    pod = seen(
        "worker-0",
        Phase.FAILED,
        node="a",
        exit_code=3,
        reason="Error",
        message="x" * 5000 + "disk full",
        started_at=later(-60),
        finished_at=later(-5),
    )
    found = after(recorded("worker-0"), pod)
    assert (found.node, found.exit_code, found.reason) == ("a", 3, "Error")
    assert (found.started_at, found.finished_at) == (later(-60), later(-5))
    assert found.message is not None
    assert found.message.endswith("xdisk full")
    assert len(found.message) == 1024


phases = st.sampled_from(Phase)


@given(
    st.sampled_from(["Succeeded", "Failed", "Unknown"]),
    st.lists(st.none() | phases.map(lambda phase: seen("worker-0", phase)), max_size=4),
)
def test_a_terminal_state_stays_whatever_is_seen(end: str, looks: list[MemberPod | None]) -> None:
    former = recorded("worker-0", end)
    found = former
    for pod in looks:
        found = after(found, pod)
    assert found == former


@pytest.mark.parametrize(
    ("found", "achieved"),
    [
        ([], False),
        ([recorded("server-0", "Succeeded")], False),
        ([recorded("worker-0", "Succeeded"), recorded("worker-1")], False),
        ([recorded("worker-0", "Succeeded"), recorded("worker-1", "Unknown")], False),
        ([recorded("worker-0", "Succeeded"), recorded("server-0", "Failed")], True),
        ([recorded("worker-0", "Succeeded"), recorded("scheduler-0", "Unknown")], True),
    ],
)
def test_success_is_that_of_every_worker(found: list[MemberStatus], achieved: bool) -> None:
    assert members.succeeded(found) is achieved


def test_replicas_are_counted_by_role() -> None:
    phases = ["Pending", "Running", "Succeeded", "Failed", "Unknown"]
    found = [recorded(f"worker-{index}", phase) for index, phase in enumerate(phases)]
    counted = members.replica_statuses([*found, recorded("server-0")])
    assert counted == {
        "worker": ReplicaStatus(active=2, succeeded=1, failed=2),
        "server": ReplicaStatus(active=1),
    }
    assert members.without_active(counted)["worker"] == ReplicaStatus(succeeded=1, failed=2)


FINISHED = '{"event": "finished", "epochs": 3, "top1": 0.9}'
READ = '{"event": "read", "images": 608, "workers": 2, "imagesPerSecond": 512.5}'


def fails(*messages: str | None, expects: bool = True, exit_code: int | None = 0) -> bool:
    """Whether workers that left these messages have failed."""
    workers = [
        recorded(f"worker-{index}", "Succeeded", exit_code=exit_code, message=message)
        for index, message in enumerate(messages)
    ]
    helper = recorded("server-0", "Succeeded", exit_code=0)
    end = members.no_result(TrainingStatus(expects_result=expects, members=(helper, *workers)))
    assert end is None or (end.reason, end.charge) == ("NoResult", Charge.PERMANENT)
    return end is not None


@pytest.mark.parametrize(
    ("messages", "failed"),
    [
        ((None,), True),
        ((None, None), True),
        # Rank 0 need not be worker 0: MXNet's scheduler gives the ranks.
        ((None, FINISHED), False),
        ((FINISHED, None), False),
        ((READ, READ), False),
        (("usage: imagenet-train [-h]",), True),
        (("{}",), True),
        (('{"event": "started", "attempt": 0, "epochs": 3}',), True),
        # As an older release writes it, before it had kinds.
        (('{"epochs": 3}',), False),
        # A field of a later release.
        (('{"event": "finished", "epochs": 3, "top9": 0.9}',), False),
    ],
)
def test_one_worker_must_leave_a_result(messages: tuple[str | None, ...], failed: bool) -> None:
    assert fails(*messages) is failed


def test_pods_of_an_older_operator_and_own_programs_need_none() -> None:
    assert not fails(None, expects=False)


def test_a_pod_of_which_no_container_is_known_needs_none() -> None:
    assert not fails(None, exit_code=None)


SLOWER = " may save some more, but is slower"


@pytest.mark.parametrize(
    ("job", "end"),
    [
        ("defaults", f"; MXNET_BACKWARD_DO_MIRROR=1 in its env{SLOWER}"),
        ("single of pytorch", f"; spec.training.activationCheckpointing: true{SLOWER}"),
        ("activation checkpointing", " adds up the gradients of smaller batches)"),
        ("mirrored", " adds up the gradients of smaller batches)"),
    ],
)
def test_a_worker_is_told_what_its_framework_can_do_without(job: str, end: str) -> None:
    said = members.memory_remedy("worker", JOBS[job])
    for field in ("resources.limits.memory", "spec.training.batchSize", "dataThreads"):
        assert field in said
    assert said.endswith(end)


def test_a_preparation_is_told_its_limit_alone() -> None:
    assert members.memory_remedy("pack").endswith("in spec.dataset.preprocessing.template")

"""The record of an attempt's members: it only ever moves forward."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.api.status import MemberStatus
from imagenet_operator.manifests import attempt
from imagenet_operator.reconcile.policies import members
from imagenet_operator.reconcile.types import Member, Phase
from support.attempt_members import NOW, later, recorded, seen
from support.job_table import JOBS


def look(former: MemberStatus, pod: Member | None) -> MemberStatus:
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
def test_a_look(former: MemberStatus, pod: Member | None, phase: str, reason: str | None) -> None:
    found = look(former, pod)
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
    found = look(recorded("worker-0"), pod)
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
def test_a_terminal_state_stays_whatever_is_seen(end: str, looks: list[Member | None]) -> None:
    former = recorded("worker-0", end)
    found = former
    for pod in looks:
        found = look(found, pod)
    assert found == former

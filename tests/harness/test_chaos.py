"""A chaos run's invariants, over histories with and without a violation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from imagenet_spec.frameworks import DEFAULT_FRAMEWORK, FRAMEWORKS
from kind.chaos import report
from kind.chaos import run as chaos
from kind.chaos.faults import Fault, power_off_node
from kind.chaos.history import (
    THIEF,
    JobState,
    LeaseState,
    PodState,
    job_state,
    lease_state,
    pod_state,
)
from kind.chaos.invariants import (
    Outage,
    Run,
    early_gpus,
    failures,
    late_ends,
    late_leaders,
    leaderless,
    overlaps,
    silent_preparations,
    silent_waits,
    violations,
)
from kind.chaos.jobs import STRATEGIES, all_jobs
from support.sentences import assert_says

POD = PodState(
    time=0.0,
    namespace="chaos-a",
    name="story-r0-worker-0",
    uid="0",
    role="worker",
    attempt=0,
    node="node-1",
    runs=True,
    is_gone=False,
    gpus=False,
)
NEXT = replace(POD, time=5.0, name="story-r1-worker-0", uid="1", attempt=1, node="node-2")
JOB = JobState(
    time=0.0,
    namespace="chaos-a",
    phase="Running",
    is_sealed=True,
    is_waiting=False,
    message="all members of attempt 0 run",
    failure="",
    restarts=0,
    disruptions=0,
)
ENDED = replace(JOB, time=100.0, phase="Succeeded")


def test_two_attempts_that_run_at_one_time_are_found() -> None:
    (found,) = overlaps([POD, NEXT], [])
    assert_says(found, "chaos-a", "story-r1-worker-0", "beside", "story-r0-worker-0")


@pytest.mark.parametrize(
    "between",
    [
        replace(POD, time=4.0, runs=False),
        replace(POD, time=4.0, is_gone=True),
    ],
)
def test_an_attempt_that_has_ended_runs_beside_no_other(between: PodState) -> None:
    assert overlaps([POD, between, NEXT], []) == []


def test_members_of_one_attempt_and_other_jobs_run_beside_each_other() -> None:
    peer = replace(POD, uid="2", name="story-r0-worker-1")
    stranger = replace(NEXT, namespace="chaos-b")
    assert overlaps([POD, peer, stranger], []) == []


@pytest.mark.parametrize(("end", "count"), [(10.0, 0), (4.0, 1)])
def test_a_node_that_is_out_may_still_be_shown_with_its_pods(end: float, count: int) -> None:
    assert len(overlaps([POD, NEXT], [Outage("node-1", 1.0, end)])) == count


def test_a_failure_without_a_crash_of_its_own_is_found() -> None:
    failed = replace(JOB, phase="Failed", failure="backoffLimit 1 is reached")
    assert failures([failed], []) == ["chaos-a: backoffLimit 1 is reached"]
    assert failures([failed], ["chaos-a"]) == []


@pytest.mark.parametrize(("sealed_at", "count"), [(0.0, 0), (20.0, 1), (None, 1)])
def test_a_pod_with_gpus_before_the_seal_is_found(sealed_at: float | None, count: int) -> None:
    job = replace(JOB, time=sealed_at or 0.0, is_sealed=sealed_at is not None)
    assert len(early_gpus([replace(POD, time=5.0, gpus=True)], [job])) == count


@pytest.mark.parametrize(
    ("message", "end", "count"),
    [
        ("waiting for nodes for all members", 61.0, 1),
        ("waiting for nodes for all members", 59.0, 0),
        ("pods are refused: exceeded quota", 600.0, 0),
    ],
)
def test_a_long_wait_without_an_explanation_is_found(message: str, end: float, count: int) -> None:
    waiting = replace(JOB, phase="Starting", is_waiting=True, message=message)
    assert len(silent_waits([waiting, replace(JOB, time=end)])) == count


@pytest.mark.parametrize(("end", "count"), [(100.0, 0), (130.0, 1)])
def test_a_wait_while_the_api_server_is_silent_needs_no_explanation(end: float, count: int) -> None:
    waiting = replace(JOB, phase="Starting", is_waiting=True, message="")
    jobs = [waiting, replace(JOB, time=end)]
    assert len(silent_waits(jobs, [(10.0, 60.0), (500.0, 600.0)])) == count


@pytest.mark.parametrize(
    ("message", "pod", "end", "count"),
    [
        ("writing the shards", [], 61.0, 1),
        ("writing the shards", [], 59.0, 0),
        ("no node has room for the pod", [], 600.0, 0),
        ("writing the shards", [replace(POD, time=1.0, attempt=None)], 600.0, 0),
        ("writing the shards", [replace(POD, time=1.0, attempt=None, is_gone=True)], 600.0, 1),
        ("writing the shards", [replace(POD, time=1.0)], 600.0, 1),
    ],
)
def test_a_preparation_without_a_pod_needs_a_reason(
    message: str, pod: list[PodState], end: float, count: int
) -> None:
    preparing = replace(JOB, phase="Preparing", message=message)
    jobs = [preparing, replace(preparing, time=end)]
    assert len(silent_preparations(jobs, pod)) == count


def test_a_job_that_ends_late_or_never_is_found() -> None:
    assert late_ends([ENDED], 0.0, ["chaos-a"]) == []
    assert len(late_ends([replace(ENDED, time=601.0)], 0.0, ["chaos-a"])) == 1
    assert len(late_ends([JOB], 0.0, ["chaos-a"])) == 1


def test_a_run_without_violations_has_none() -> None:
    run = Run([POD], [JOB, ENDED], [], LEASES[:1], [], [], 50.0, namespaces=["chaos-a"])
    assert [len(found) for found in violations(run).values()] == [0] * 6


LEASES = [
    LeaseState(time=0.0, holder="a", seconds=15.0),
    LeaseState(time=10.0, holder="a", seconds=15.0),
    LeaseState(time=60.0, holder="b", seconds=15.0),
    LeaseState(time=70.0, holder="", seconds=1.0),
    LeaseState(time=80.0, holder="a", seconds=15.0),
]


def test_there_is_no_leader_after_the_last_renewal_and_after_a_release() -> None:
    assert leaderless(LEASES) == [(25.0, 60.0), (70.0, 80.0)]


def test_a_wait_without_a_leader_needs_no_explanation() -> None:
    waiting = replace(JOB, phase="Starting", is_waiting=True, message="")
    jobs = [waiting, replace(JOB, time=90.0)]
    # The API server was away in a part of the same time.
    run = Run([], jobs, [], LEASES, [(20.0, 50.0)], [], 0.0, [])
    assert not any(violations(run).values())
    (found,) = filter(None, violations(replace(run, leases=LEASES[:2], silences=[])).values())
    assert found == ["chaos-a: 90 s in Starting from second 0: ''"]


@pytest.mark.parametrize(("silences", "count"), [([], 1), ([(30.0, 100.0)], 0)])
def test_a_leader_that_comes_late_is_found(silences: list[tuple[float, float]], count: int) -> None:
    leases = [LEASES[0], replace(LEASES[1], time=136.0)]
    assert len(late_leaders(leases, silences)) == count


def test_states_are_read_as_the_api_server_shows_them() -> None:
    pod: dict[str, Any] = {
        "metadata": {
            "namespace": "chaos-a",
            "name": "story-r0-worker-0",
            "uid": "0",
            "labels": {
                "training.imagenet.dev/job-role": "worker",
                "training.imagenet.dev/attempt": "0",
            },
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "main"}]},
        "status": {"containerStatuses": [{"state": {"running": {}}}]},
    }
    assert pod_state(pod, 0.0) == POD
    conditions = [
        {"type": "DatasetReady", "status": "True", "message": "sealed"},
        {"type": "Running", "status": "True", "message": "all members of attempt 0 run"},
    ]
    job: dict[str, Any] = {
        "metadata": {"namespace": "chaos-a"},
        "spec": {"dataset": {"source": {"volume": {"claimName": "raw"}}}},
        "status": {"phase": "Running", "conditions": conditions},
    }
    assert job_state(job, 0.0) == JOB
    new = {**job, "status": {}}
    assert not job_state(new, 0.0).is_sealed
    new["spec"] = {"dataset": {"source": {"prepared": {"claimName": "data"}}}}
    assert job_state(new, 0.0).is_sealed
    lease = {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    assert lease_state(lease, 0.0) == LEASES[0]
    assert lease_state({"spec": {"holderIdentity": THIEF}}, 0.0).holder == ""
    assert lease_state({"spec": {}}, 0.0).holder == ""


def test_twenty_jobs_train_by_every_strategy() -> None:
    jobs = all_jobs(epochs=1)
    assert len({job.name for job in jobs}) == 20
    assert {job.name for job in jobs if job.trains} == STRATEGIES.keys()
    # One process without peers is the same case for each framework.
    assert {(framework, *strategy) for framework, strategy, _ in STRATEGIES.values()} == {
        (name, strategy)
        for name, framework in FRAMEWORKS.items()
        for strategy in framework.strategies
        if strategy != "single" or name == DEFAULT_FRAMEWORK
    }


def test_tables_are_appended_to_a_page_and_then_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    for text in ("| first |\n", "| second |\n"):
        report.write(page, text)
    marks = "<!-- chaos-kind: begin -->\n{}<!-- chaos-kind: end -->\n"
    assert page.read_text() == "# Page\n\n" + marks.format("| second |\n")


def test_a_kind_without_effect_holds_up_no_other_of_its_group() -> None:
    kinds = [Fault(name, "group", lambda scene: None) for name in ("first", "second")]
    injections = chaos.Injections()
    injections.without_effect["first"] = 2
    injections.observed["second"] = 1
    assert injections.next_of(kinds).name == "second"


def test_an_unexpected_error_of_a_fault_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(scene: Any) -> None:
        raise RuntimeError("a bug in a fault")

    monkeypatch.setattr(chaos, "QUIET_SECONDS", 0.0)
    kubectl = SimpleNamespace(raw=lambda path: "ok")
    scene: Any = SimpleNamespace(
        victims=lambda: [POD], cluster=SimpleNamespace(kubectl=kubectl), random=Random(0)
    )
    faults = (Fault("broken", "group", break_down),)
    plan = chaos.Plan(each=1, total=1, seconds=60.0, faults=faults, jobs=())
    with pytest.raises(RuntimeError, match="a bug in a fault"):
        chaos._inject(scene, {}, plan)


def test_a_node_whose_power_off_fails_is_started_again() -> None:
    def stop(node: str) -> None:
        raise OSError("the shell ended")

    started: list[str] = []
    cluster = SimpleNamespace(workers=["worker"], stop_node=stop, start_node=started.append)
    outages: list[str] = []
    scene: Any = SimpleNamespace(
        cluster=cluster,
        random=Random(0),
        advertise_gpus=lambda node: None,
        record_outage=lambda node, begin: outages.append(node),
    )
    with pytest.raises(OSError, match="the shell ended"):
        power_off_node(scene)
    assert started == outages == ["worker"]

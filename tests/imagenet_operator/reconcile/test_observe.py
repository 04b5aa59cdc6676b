"""The children of a job as the operator observes them: owner, attempt, phase of each pod."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from imagenet_operator.manifests import attempt, dataset, labels, protection, volumes
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.reconcile.observe import sort
from imagenet_operator.reconcile.types import (
    Claim,
    MemberPod,
    Observed,
    Phase,
    Reference,
    Toleration,
)
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import MemberStatus, Status, TrainingStatus
from support.job_table import JOBS
from support.observed_objects import (
    JOB,
    OUT_OF_MEMORY,
    Manifest,
    condition,
    ended,
    living,
    state,
)


def pods(number: int = 0) -> list[Manifest]:
    return [item for item in attempt.build(JOB, number) if item["kind"] == "Pod"]


def job_at_attempt(number: int | None) -> ImageNetJob:
    """A job whose status records an attempt."""
    members = (MemberStatus(name=f"digits-r{number}-worker-0", role="worker"),)
    training = None if number is None else TrainingStatus(attempt=number, members=members)
    return JOB.model_copy(update={"status": Status(training=training)})


def worker(status: Manifest | None = None, spec: Manifest | None = None, **metadata: Any) -> Any:
    manifest = pods()[-1]
    return living({**manifest, "spec": {**manifest["spec"], **(spec or {})}}, status, **metadata)


def observed_member(
    status: Manifest | None = None, spec: Manifest | None = None, **metadata: Any
) -> MemberPod:
    observed = sort(JOB, [worker(status, spec, **metadata)], unreachable_nodes=frozenset({"lost"}))
    return observed.attempts[0].members[0]


@pytest.mark.parametrize(
    ("status", "spec", "phase"),
    [
        ({}, {}, Phase.PENDING),
        ({"phase": "Pending"}, {}, Phase.PENDING),
        ({"phase": "Pending", **condition("PodScheduled", "False")}, {}, Phase.PENDING),
        ({"phase": "Pending", **condition("PodScheduled")}, {}, Phase.BOUND),
        ({"phase": "Pending"}, {"nodeName": "a"}, Phase.BOUND),
        ({"phase": "Running"}, {}, Phase.RUNNING),
        ({"phase": "Unknown"}, {}, Phase.RUNNING),
        ({"phase": "Succeeded"}, {}, Phase.SUCCEEDED),
        ({"phase": "Failed"}, {}, Phase.FAILED),
        ({"phase": "Running", **state(terminated=ended(0))}, {}, Phase.SUCCEEDED),
        ({"phase": "Running", **state(terminated=ended(1))}, {}, Phase.FAILED),
        ({"phase": "Running", **state(running={})}, {}, Phase.RUNNING),
        # A container that was injected beside the program does not speak for it.
        (
            {
                "phase": "Running",
                "containerStatuses": [{"name": "mesh", "state": {"terminated": ended(1)}}],
            },
            {},
            Phase.RUNNING,
        ),
    ],
)
def test_the_phase_is_that_of_the_program(status: Manifest, spec: Manifest, phase: Phase) -> None:
    assert observed_member(status, spec).phase is phase


def test_a_member_tells_all_that_its_pod_does() -> None:
    member = observed_member(
        {
            "phase": "Failed",
            **state(terminated=ended(3, " disk full\n", "2026-01-02T04:04:05.9+01:00")),
        },
        {"nodeName": "a"},
    )
    assert (member.attempt, member.role, member.index) == (0, "worker", 3)
    assert (member.name, member.uid) == ("digits-r0-worker-3", "uid-of-digits-r0-worker-3")
    assert (member.exit_code, member.reason, member.message) == (3, "Error", "disk full")
    assert (member.node, member.live) == ("a", False)
    assert member.finished_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert member.requests["nvidia.com/gpu"] == Fraction(8)
    assert member.reference == Reference("Pod", member.name, member.uid)


def test_a_pod_lives_until_all_its_containers_have_ended() -> None:
    """The pod's phase is still Running for a moment after its last container has ended."""
    status = {"phase": "Running", **state(terminated=ended(0, ""))}
    assert not observed_member(status, {"containers": [{"name": "main"}]}).live
    assert observed_member(status, {"containers": [{"name": "main"}, {"name": "injected"}]}).live


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", "Succeeded", "Failed"])
def test_a_pod_is_finished_when_its_phase_says_so(phase: str) -> None:
    """Until then the scheduler counts its requests."""
    member = observed_member({"phase": phase, **state(terminated=ended(1, ""))})
    assert member.finished is (phase in ("Succeeded", "Failed"))


def test_requests_go_before_limits_and_are_summed() -> None:
    containers = [
        {"name": "main", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "4"}}},
        {"name": "other", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        {"name": "third"},
    ]
    asked = {"cpu": Fraction(3, 2), "memory": Fraction(2**30)}
    assert observed_member({}, {"containers": containers}).requests == asked


def test_what_a_pod_puts_up_with() -> None:
    found = observed_member({}, {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]})
    assert found.tolerations == (Toleration("nvidia.com/gpu", "Exists"),)
    assert observed_member({}).tolerations == ()


def test_why_a_pod_waits() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    member = observed_member({"phase": "Pending", **state(waiting=waiting)})
    assert (member.reason, member.message) == ("ImagePullBackOff", "no such image")


@pytest.mark.parametrize(
    ("status", "disrupted"),
    [
        ({}, None),
        (condition("DisruptionTarget", reason="PreemptionByScheduler"), "PreemptionByScheduler"),
        (condition("DisruptionTarget"), "DisruptionTarget"),
        (condition("DisruptionTarget", "False", reason="Never"), None),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Failed", "reason": "NodeLost"}, "NodeLost"),
        ({"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}, "OutOfnvidia.com/gpu"),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, None),
    ],
)
def test_what_the_cluster_did(status: Manifest, disrupted: str | None) -> None:
    assert observed_member(status).disrupted == disrupted


@pytest.mark.parametrize(
    ("node", "deleted", "gone"),
    [("lost", True, True), ("lost", False, False), ("a", True, False), (None, True, False)],
)
def test_a_terminating_pod_counts_as_gone_on_a_node_out_of_reach(
    node: str | None, deleted: bool, gone: bool
) -> None:
    metadata = {"deletionTimestamp": "2026-01-02T03:04:05Z"} if deleted else {}
    member = observed_member({"phase": "Running"}, {"nodeName": node} if node else {}, **metadata)
    assert (member.terminating, member.gone) == (deleted, gone)
    assert member.out_of_reach is (node == "lost")


POD_LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "


@pytest.mark.parametrize(
    "words",
    [
        POD_LIMIT,
        'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
        'Container main exceeded its local ephemeral storage limit "1Gi". ',
    ],
)
@pytest.mark.parametrize("code", [0, 137, 143])
def test_an_eviction_for_the_own_use_of_storage_is_no_disruption(words: str, code: int) -> None:
    status = {"phase": "Failed", "reason": "Evicted", "message": words}
    member = observed_member({**status, **state(terminated=ended(code, "stopping"))})
    assert (member.phase, member.disrupted) == (Phase.FAILED, None)
    assert member.reason == "StorageLimitExceeded"
    assert str(member.message).startswith(words.strip(". "))
    assert str(member.message).endswith("of the emptyDir in spec.training.workers.template")


@pytest.mark.parametrize(
    "status",
    [
        {"message": "The node was low on resource: memory. Container main was using 2Gi, which "
                    "exceeds its request of 1Gi. "},
        {"message": "Pod was rejected: The node had condition: [DiskPressure]. "},
        {"message": POD_LIMIT, **condition("DisruptionTarget", reason="TerminationByKubelet")},
        {},
    ],
)  # fmt: skip
def test_an_eviction_for_the_node_is_a_disruption(status: Manifest) -> None:
    member = observed_member({"phase": "Failed", "reason": "Evicted", **status})
    assert member.disrupted in ("Evicted", "TerminationByKubelet")


EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
AT_5 = "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("finished", "cut_short"),
    [
        ("2026-01-02T03:04:04Z", False),
        ("2026-01-02T03:04:05Z", True),
        ("2026-01-02T03:04:06Z", True),
        (None, True),
    ],
)
@pytest.mark.parametrize(
    ("status", "metadata"),
    [
        ({"conditions": [EVICTED | {"lastTransitionTime": AT_5}]}, {}),
        ({}, {"deletionTimestamp": AT_5}),
        (
            {},
            {"deletionTimestamp": "2026-01-02T03:04:35Z", "deletionGracePeriodSeconds": 30},
        ),
        # Evicted first, and then deleted with its grace period.
        (
            {"conditions": [EVICTED | {"lastTransitionTime": AT_5}]},
            {"deletionTimestamp": "2026-01-02T03:04:37Z", "deletionGracePeriodSeconds": 30},
        ),
        # Deleted first; the garbage collector marks it when its node is gone.
        (
            {"conditions": [EVICTED | {"lastTransitionTime": "2026-01-02T03:09:00Z"}]},
            {"deletionTimestamp": AT_5, "deletionGracePeriodSeconds": 0},
        ),
    ],
)
def test_a_program_that_ends_before_the_request_is_not_cut_short(
    status: Manifest, metadata: Manifest, finished: str | None, cut_short: bool
) -> None:
    found = {"phase": "Running", **status, **state(terminated=ended(0, "", finished))}
    assert observed_member(found, **metadata).cut_short is cut_short


@pytest.mark.parametrize(
    ("status", "cut_short"),
    [
        ({}, False),
        ({"conditions": [EVICTED]}, True),
        ({"conditions": [EVICTED | {"status": "False"}]}, False),
        ({"phase": "Failed", "reason": "Terminated"}, True),
    ],
)
def test_a_request_of_an_unknown_time_counts_as_early(status: Manifest, cut_short: bool) -> None:
    found = {**status, **state(terminated=ended(0, "", AT_5))}
    assert observed_member(found).cut_short is cut_short


EVERYTHING = Settings(pod_disruption_budget=True)
SHARED = ("Service", "NetworkPolicy", "PodDisruptionBudget")


def test_attempts_are_sorted_by_number_role_and_index() -> None:
    children = [
        living(item) for number in (10, 2) for item in attempt.build(JOB, number, EVERYTHING)
    ]
    observed = sort(job_at_attempt(9), reversed(children))
    assert list(observed.attempts) == [2, 10]
    names = [member.name.removeprefix("digits-r2-") for member in observed.attempts[2].members]
    assert names == ["scheduler-0", "server-0", "server-1", *(f"worker-{n}" for n in range(4))]
    shared = {Reference(kind, "digits-r2", "uid-of-digits-r2") for kind in SHARED}
    assert set(observed.attempts[2].shared) == shared
    assert observed.foreign == {}


def test_what_is_shared_is_none_once_it_is_deleted() -> None:
    shared = attempt.shared(JOB, 0, 5, EVERYTHING)
    assert tuple(item["kind"] for item in shared) == SHARED
    leaving = [living(item, deletionTimestamp="2026-01-02T03:04:05Z") for item in shared]
    assert sort(JOB, leaving) == Observed()


def test_what_protects_the_preparation_is_of_no_attempt() -> None:
    (policy,) = protection.of_preparation(JOB, EVERYTHING)
    reference = Reference("NetworkPolicy", "digits-preparation", "uid-of-digits-preparation")
    assert sort(JOB, [living(policy)]) == Observed(protection=(reference,))
    assert sort(JOB, [living(policy, deletionTimestamp="2026-01-02T03:04:05Z")]) == Observed()


OTHERS = {"kind": "ImageNetJob", "name": "digits", "uid": "former", "controller": True}


@pytest.mark.parametrize(
    ("owners", "whose"),
    [
        ([OTHERS], "ImageNetJob digits (UID former)"),
        ([{**OTHERS, "controller": False}], "another owner"),
        ([], "another owner"),
    ],
)
def test_what_another_owns_is_foreign(owners: list[Manifest], whose: str) -> None:
    protecting = protection.of_preparation(JOB, EVERYTHING)
    for item in (*attempt.build(JOB, 0, EVERYTHING), *protecting, dataset.index_job(JOB)):
        item["metadata"]["ownerReferences"] = owners
        observed = sort(JOB, [living(item)])
        name = item["metadata"]["name"]
        assert observed == Observed(foreign={(item["kind"], name): whose})


@pytest.mark.parametrize(
    "label", [labels.ATTEMPT, labels.JOB_ROLE, labels.REPLICA_INDEX], ids=lambda key: key[22:]
)
def test_a_pod_that_lost_its_labels_is_left_alone(label: str) -> None:
    pod = worker()
    pod["metadata"]["labels"] = {
        key: value for key, value in pod["metadata"]["labels"].items() if key != label
    }
    assert sort(JOB, [pod]).attempts == {}


@pytest.mark.parametrize("value", ["", "x", "-1", "1.0", "٣", "01", "9", "9" * 9, "9" * 63])
@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("Pod", labels.ATTEMPT),
        ("Pod", labels.REPLICA_INDEX),
        ("Service", labels.ATTEMPT),
        (protection.NETWORK_POLICY, labels.ATTEMPT),
        (protection.DISRUPTION_BUDGET, labels.ATTEMPT),
    ],
)
def test_a_child_with_a_forged_label_is_another_owners(kind: str, label: str, value: str) -> None:
    """A label that does not fit the name, which cannot be changed, never blinds its job."""
    children = [living(item) for item in attempt.build(JOB, 0, EVERYTHING)]
    forged = next(item for item in children if item["kind"] == kind)
    forged["metadata"]["labels"][label] = value

    observed = sort(JOB, children)

    assert list(observed.foreign) == [(kind, forged["metadata"]["name"])]
    assert list(observed.attempts) == [0]


@pytest.mark.parametrize("value", ["x", "", "1.5", "9" * 63])
def test_a_pod_of_a_forged_generation_is_another_owners(value: str) -> None:
    forged = worker()
    forged["metadata"]["labels"][labels.GENERATION] = value
    assert list(sort(JOB, [forged]).foreign) == [("Pod", forged["metadata"]["name"])]


@pytest.mark.parametrize(
    ("recorded", "number", "is_ours"),
    [
        (None, 0, True),
        (None, 1, False),
        (None, 99999999, False),
        (3, 2, True),
        (3, 4, True),
        (3, 5, False),
        (3, 99999999, False),
    ],
)
def test_the_attempt_of_a_child_is_one_that_its_job_can_have_reached(
    recorded: int | None, number: int, is_ours: bool
) -> None:
    children = [living(item) for item in attempt.build(JOB, number, EVERYTHING)]

    observed = sort(job_at_attempt(recorded), children)

    assert list(observed.attempts) == ([number] if is_ours else [])
    assert len(observed.foreign) == (0 if is_ours else len(children))


def test_an_attempt_on_what_protects_the_preparation_is_forged() -> None:
    (forged,) = map(living, protection.of_preparation(JOB, EVERYTHING))
    forged["metadata"]["labels"][labels.ATTEMPT] = "7"
    observed = sort(JOB, [forged])
    assert (observed.protection, observed.attempts) == ((), {})
    assert list(observed.foreign) == [(protection.NETWORK_POLICY, forged["metadata"]["name"])]


def test_claims_are_ours_or_were_a_namesakes() -> None:
    drop = JOBS["deletes its volumes"]
    ours, kept = volumes.claims(drop)
    kept["metadata"]["ownerReferences"] = []
    leaving = living(kept, deletionTimestamp="2026-01-02T03:04:05Z")
    observed = sort(drop, [living(ours), leaving])
    owner = labels.owner(drop)
    facts: Manifest = {"pending": True, "modes": ("ReadWriteMany",)}
    assert observed.claims == {
        "digits-dataset": Claim("digits-dataset", "uid-of-digits-dataset", (owner,), **facts),
        "digits-output": Claim(
            "digits-output", "uid-of-digits-output", (), terminating=True, **facts
        ),
    }
    kept["metadata"]["labels"] = {}
    ours["metadata"]["ownerReferences"] = [{**owner, "uid": "former"}]
    assert sort(drop, [living(ours), living(kept)]).claims == {}


def test_what_claims_allow_is_seen_whosoever_they_are() -> None:
    ours, _ = volumes.claims(JOBS["deletes its volumes"])
    theirs: Manifest = {"kind": "PersistentVolumeClaim", "metadata": {"name": "raw"}}
    theirs["spec"] = {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
    observed = sort(JOBS["deletes its volumes"], [living(ours), living(theirs)])
    assert observed.access == {
        "digits-dataset": ("ReadWriteMany",),
        "raw": ("ReadWriteOnce", "ReadOnlyMany"),
    }


def test_a_member_that_used_too_much_memory_says_what_to_raise() -> None:
    member = observed_member({"phase": "Failed", **state(terminated=OUT_OF_MEMORY)})
    assert member.message is not None
    for fact in (
        "OOMKilled",
        "resources.limits.memory in spec.training.workers.template",
        "spec.training.batchSize",
        "dataThreads",
        "--macrobatch-size",
        "MXNET_BACKWARD_DO_MIRROR=1",
    ):
        assert fact in member.message

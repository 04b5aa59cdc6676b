"""What is deleted of a finished job, and between two attempts."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import pytest

from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.policies import cleanup
from imagenet_operator.reconcile.types import (
    Attempt,
    Claim,
    MemberPod,
    Observed,
    Patch,
    Phase,
    PreparationJob,
    Reference,
)
from imagenet_spec.resource import ImageNetJob
from support.attempt_members import NOW, later, seen
from support.job_table import manifest

SERVICE = Reference("Service", "digits-r0", "uid-s")
POLICY = Reference("NetworkPolicy", "digits-r0", "uid-n")
BUDGET = Reference("PodDisruptionBudget", "digits-r0", "uid-b")
BEFORE = Reference("NetworkPolicy", "digits-preparation", "uid-before")
OBSERVED = Observed(
    jobs={
        "index": PreparationJob("index", "digits-index", "uid-i", complete=True),
        "pack": PreparationJob("pack", "digits-pack", "uid-p"),
        "seal": PreparationJob("seal", "digits-seal", "uid-x", terminating=True),
    },
    attempts={
        0: Attempt(
            0,
            (
                seen("scheduler-0"),
                seen("server-0", terminating=True),
                seen("worker-0", Phase.SUCCEEDED, live=False),
                # The program is done, but a container that was injected beside it is not.
                seen("worker-1", Phase.SUCCEEDED),
            ),
            (SERVICE, POLICY, BUDGET),
        )
    },
    protection=(BEFORE,),
)


SHARED = {"digits-r0", "digits-preparation"}


@pytest.mark.parametrize(
    ("policy", "deleted"),
    [
        ("None", set()),
        ("Running", {"digits-pack", "scheduler-0", "worker-1", *SHARED}),
        (
            "All",
            {"digits-index", "digits-pack", "scheduler-0", "worker-0", "worker-1", *SHARED},
        ),
    ],
)
def test_by_policy(policy: Literal["None", "Running", "All"], deleted: set[str]) -> None:
    assert {item.name for item in cleanup.leftovers(policy, OBSERVED)} == deleted


def test_every_pod_of_an_attempt_that_ended_goes() -> None:
    names = [item.name for item in cleanup.attempts(OBSERVED.attempts.values())]
    assert names == ["scheduler-0", "worker-0", "worker-1", "digits-r0", "digits-r0"]


def test_deletes_name_the_uid() -> None:
    attempts = OBSERVED.attempts.values()
    assert cleanup.shared(attempts) == (SERVICE, BUDGET)
    assert Reference("Pod", "worker-0", "uid-of-worker-0") in cleanup.attempts(attempts)


ENDED = seen("worker-0", Phase.SUCCEEDED, live=False)


@pytest.mark.parametrize(
    ("member", "goes"),
    [
        (seen("worker-0"), False),
        (seen("worker-0", terminating=True), False),
        # A container beside the program may ignore its end.
        (seen("worker-0", Phase.SUCCEEDED, terminating=True), False),
        (seen("worker-0", terminating=True, gone=True), True),
        (ENDED, True),
        (None, True),
    ],
)
def test_a_network_policy_outlives_what_it_protects(member: MemberPod | None, goes: bool) -> None:
    found = () if member is None else (ENDED, member)
    observed = Observed(attempts={0: Attempt(0, found, (SERVICE, POLICY))})
    assert (POLICY in cleanup.attempts(observed.attempts.values())) is goes
    assert SERVICE in cleanup.attempts(observed.attempts.values())
    for policy in ("Running", "All"):
        assert (POLICY in cleanup.leftovers(policy, observed)) is goes
        assert cleanup.is_held_up(policy, observed) is not goes
    assert not cleanup.is_held_up("None", observed)


def job(status: dict[str, Any] | None = None, **run_policy: Any) -> ImageNetJob:
    return ImageNetJob.model_validate({**manifest(run_policy=run_policy), "status": status or {}})


@pytest.mark.parametrize(
    ("seconds", "ended", "deleted_at"),
    [(None, NOW, None), (60, None, None), (60, NOW, later(60)), (0, NOW, NOW)],
)
def test_time_to_live(
    seconds: int | None, ended: datetime | None, deleted_at: datetime | None
) -> None:
    policy = {} if seconds is None else {"ttlSecondsAfterFinished": seconds}
    status = {} if ended is None else {"completionTime": ended.isoformat()}
    assert cleanup.deletion_time(job(status, **policy)) == deleted_at


def test_retention_is_carried_over_to_claims() -> None:
    other = {"kind": "Other", "name": "o", "uid": "other"}
    keep, drop = job(retentionPolicy="Retain"), job(retentionPolicy="Delete")
    own = labels.owner(keep)
    free, owned = Claim("c", "uid-c", (other,)), Claim("c", "uid-c", (other, own))
    assert cleanup.claim_owners(keep, [free]) == cleanup.claim_owners(drop, [owned]) == ()
    assert cleanup.claim_owners(keep, [owned]) == (
        Patch("PersistentVolumeClaim", "c", "uid-c", {"metadata": {"ownerReferences": [other]}}),
    )
    (patch,) = cleanup.claim_owners(drop, [free])
    assert patch.merge == {"metadata": {"ownerReferences": [other, own]}}
    assert cleanup.claim_owners(drop, [Claim("c", "uid-c", terminating=True)]) == ()


def test_failed_pods_of_the_attempt_that_is_kept_stay() -> None:
    pods = (
        seen("worker-0", Phase.FAILED, live=False, finished=True),
        seen("worker-1", Phase.FAILED),
        seen("server-0"),
    )
    ended = [Attempt(0, pods), Attempt(1, pods)]
    everything = {item.name for item in pods}

    def deleted(kept: int | None) -> list[str]:
        return [item.name for item in cleanup.attempts(ended, kept)]

    assert deleted(None) == [item.name for item in pods] * 2
    assert set(deleted(1)) == everything
    assert deleted(1).count("worker-0") == 1
    assert deleted(1).count("worker-1") == deleted(1).count("server-0") == 2


@pytest.mark.parametrize(("age", "is_adopted"), [(60, False), (0, True), (-1, True)])
def test_a_claim_of_a_former_job_is_not_deleted_with_this_one(age: float, is_adopted: bool) -> None:
    document = manifest(run_policy={"retentionPolicy": "Delete"})
    document["metadata"]["creationTimestamp"] = NOW.isoformat()
    job = ImageNetJob.model_validate(document)
    claim = Claim("digits-dataset", "uid-c", created=later(-age))
    assert bool(cleanup.claim_owners(job, [claim])) == is_adopted

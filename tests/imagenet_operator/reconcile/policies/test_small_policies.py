"""The policies that fit in one table each: success, replicas, suspend, ttl, retention, estimate."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.status import MemberStatus, ReplicaStatus
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.policies import (
    estimate,
    replicas,
    retention,
    success,
    suspend,
    ttl,
)
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Attempt, Claim, Observed, Patch, PreparationJob
from support.attempt_members import NOW, later, recorded, seen
from support.job_table import manifest


def job(status: dict[str, Any] | None = None, **run_policy: Any) -> ImageNetJob:
    return ImageNetJob.model_validate({**manifest(run_policy=run_policy), "status": status or {}})


@pytest.mark.parametrize(
    ("members", "achieved"),
    [
        ([], False),
        ([recorded("server-0", "Succeeded")], False),
        ([recorded("worker-0", "Succeeded"), recorded("worker-1")], False),
        ([recorded("worker-0", "Succeeded"), recorded("worker-1", "Unknown")], False),
        ([recorded("worker-0", "Succeeded"), recorded("server-0", "Failed")], True),
        ([recorded("worker-0", "Succeeded"), recorded("scheduler-0", "Unknown")], True),
    ],
)
def test_success_is_that_of_every_worker(members: list[MemberStatus], achieved: bool) -> None:
    assert success.achieved(members) is achieved


def test_replicas_are_counted_by_role() -> None:
    phases = ["Pending", "Running", "Succeeded", "Failed", "Unknown"]
    members = [recorded(f"worker-{index}", phase) for index, phase in enumerate(phases)]
    counted = replicas.count([*members, recorded("server-0")])
    assert counted == {
        "worker": ReplicaStatus(active=2, succeeded=1, failed=2),
        "server": ReplicaStatus(active=1),
    }
    assert replicas.settled(counted)["worker"] == ReplicaStatus(succeeded=1, failed=2)


def test_suspension_reaches_jobs_that_may_still_run() -> None:
    jobs = [
        PreparationJob("index", "digits-index", "uid-i", complete=True),
        PreparationJob("pack", "digits-pack", "uid-p"),
        PreparationJob("seal", "digits-seal", "uid-s", terminating=True),
    ]
    assert suspend.patches(jobs, True) == (
        Patch("Job", "digits-pack", "uid-p", {"spec": {"suspend": True}}),
    )
    assert suspend.patches(jobs, False) == ()


@pytest.mark.parametrize(
    ("observed", "quiet"),
    [
        (Observed(), True),
        (Observed(jobs={"pack": PreparationJob("pack", "p", "u", active=1)}), False),
        (Observed(jobs={"pack": PreparationJob("pack", "p", "u")}), True),
        (Observed(attempts={0: Attempt(0, (seen("worker-0", terminating=True),))}), False),
        (Observed(attempts={0: Attempt(0, (seen("worker-0", gone=True),))}), True),
    ],
)
def test_a_job_is_quiet_without_pods(observed: Observed, quiet: bool) -> None:
    assert suspend.is_quiet(observed) is quiet


@pytest.mark.parametrize(
    ("seconds", "ended", "deleted_at"),
    [(None, NOW, None), (60, None, None), (60, NOW, later(60)), (0, NOW, NOW)],
)
def test_time_to_live(
    seconds: int | None, ended: datetime | None, deleted_at: datetime | None
) -> None:
    policy = {} if seconds is None else {"ttlSecondsAfterFinished": seconds}
    status = {} if ended is None else {"completionTime": ended.isoformat()}
    assert ttl.deletion_time(job(status, **policy)) == deleted_at


def test_retention_is_carried_over_to_claims() -> None:
    other = {"kind": "Other", "name": "o", "uid": "other"}
    keep, drop = job(retentionPolicy="Retain"), job(retentionPolicy="Delete")
    own = labels.owner(keep)
    free, owned = Claim("c", "uid-c", (other,)), Claim("c", "uid-c", (other, own))
    assert retention.patches(keep, [free]) == retention.patches(drop, [owned]) == ()
    assert retention.patches(keep, [owned]) == (
        Patch("PersistentVolumeClaim", "c", "uid-c", {"metadata": {"ownerReferences": [other]}}),
    )
    (patch,) = retention.patches(drop, [free])
    assert patch.merge == {"metadata": {"ownerReferences": [other, own]}}
    assert retention.patches(drop, [Claim("c", "uid-c", terminating=True)]) == ()


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 3400),
        ({"epoch": 9, "batch": 20}, 0),
        ({"epoch": 11}, 0),
        ({"batch": None}, 3600),
        ({"images_per_second": 0.0}, None),
        ({"images_per_second": None}, None),
        ({"images_per_second": 5e-324}, None),
        ({"epoch": None}, None),
        ({"epochs": None}, None),
        ({"batches_per_epoch": 0}, None),
    ],
)
def test_the_estimate_is_what_is_left_at_the_speed_of_now(
    fields: dict[str, Any], seconds: int | None
) -> None:
    known = {"epoch": 1, "epochs": 10, "batch": 10, "batches_per_epoch": 20}
    sample = Sample(NOW, **{**known, "images_per_second": 5.0, **fields})
    assert estimate.remaining_seconds(sample, batch_size=100) == seconds

"""Cleanup: what of a job is deleted, and when.

After the end, cleanPodPolicy decides about pods and Jobs. None keeps all of them, even pods that
still run (to debug a hang), and the failed pods of an attempt until the next attempt has failed.
Running deletes the pods that may still run, and keeps finished pods for their logs. Objects that
the members share go with the pods, the NetworkPolicy last: a program listens until it has ended.

retentionPolicy decides about the claims that were made for the job. The builders set the owner;
here it is changed on a claim that was made under another policy. A claim that a former job of the
same name left is used, but never gets this job as owner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Literal

from imagenet_operator.manifests import labels
from imagenet_operator.manifests.protection import NETWORK_POLICY
from imagenet_operator.reconcile.types import Attempt, Claim, Observed, Patch, Phase, Reference
from imagenet_spec.resource import ImageNetJob


def leftovers(
    policy: Literal["None", "Running", "All"],
    observed: Observed,
    kept: Collection[str] = (),
) -> tuple[Reference, ...]:
    """Return the objects of a finished job that the policy wants deleted.

    `kept` has the roles of Jobs that stay until they end, with what protects their pods.
    """
    if policy == "None":
        return ()
    everything = policy == "All"
    jobs = tuple(
        job.reference
        for job in observed.jobs.values()
        if not job.terminating and job.role not in kept and (everything or not job.finished)
    )
    pods = tuple(
        member.reference
        for attempt in observed.attempts.values()
        for member in attempt.members
        if not member.terminating and (everything or member.live)
    )
    protection = () if kept else observed.protection
    return jobs + pods + protection + shared(observed.attempts.values())


def is_held_up(policy: Literal["None", "Running", "All"], observed: Observed) -> bool:
    """Whether an object can be deleted only after pods have ended."""
    left = {item for attempt in observed.attempts.values() for item in attempt.shared}
    return policy != "None" and left != set(shared(observed.attempts.values()))


def attempts(ended: Collection[Attempt], kept: int | None = None) -> tuple[Reference, ...]:
    """Return what is left of ended attempts; the failed pods of the attempt `kept` stay."""
    pods = tuple(
        member.reference
        for attempt in ended
        for member in attempt.members
        if not member.terminating
        if not (attempt.number == kept and member.finished and member.phase is Phase.FAILED)
    )
    return pods + shared(ended)


def running(ended: Iterable[Attempt]) -> tuple[Reference, ...]:
    """Return the pods of attempts that may still run."""
    return tuple(
        member.reference
        for attempt in ended
        for member in attempt.members
        if member.live and not member.terminating
    )


def shared(ended: Collection[Attempt]) -> tuple[Reference, ...]:
    """Return the objects that the pods share, without those that still protect a pod."""
    return tuple(
        item
        for attempt in ended
        for item in attempt.shared
        if item.kind != NETWORK_POLICY or not attempt.is_exposed
    )


def claim_owners(job: ImageNetJob, claims: Iterable[Claim]) -> tuple[Patch, ...]:
    """Return the patches that give the claims the owners that retentionPolicy wants."""
    owned = job.spec.run_policy.retention_policy == "Delete"
    return tuple(
        Patch(
            "PersistentVolumeClaim",
            claim.name,
            claim.uid,
            {"metadata": {"ownerReferences": [*others, *([labels.owner(job)] if owned else [])]}},
        )
        for claim in claims
        if not claim.terminating
        for others in [[item for item in claim.owners if item["uid"] != job.metadata.uid]]
        if owned != (len(others) < len(claim.owners))
        if not (owned and claim.is_older_than(job.metadata.creation_timestamp))
    )


def deletion_time(job: ImageNetJob) -> datetime | None:
    """Return when the job is to be deleted; None if never, or if it has not finished."""
    seconds = job.spec.run_policy.ttl_seconds_after_finished
    if seconds is None or job.status.completion_time is None:
        return None
    return job.status.completion_time + timedelta(seconds=seconds)

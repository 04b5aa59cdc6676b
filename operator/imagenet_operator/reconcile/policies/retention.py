"""Retention: whether the claims that were made for a job go with it.

A claim that names the job as its owner is deleted with it by Kubernetes' garbage collector. The
builders make it so, or not; here the policy is carried over to a claim that was made under another
policy, or by a former job of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable

from imagenet_operator.api import ImageNetJob
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Claim, Patch


def patches(job: ImageNetJob, claims: Iterable[Claim]) -> tuple[Patch, ...]:
    """Return what makes the claims' owners say what retentionPolicy says."""
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
    )

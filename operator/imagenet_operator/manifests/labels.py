"""The labels and the owner of every child, by which `reconcile.observe` sorts them.

The keys follow Kubeflow's training.kubeflow.org/job-name, job-role and replica-index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest

JOB_NAME = "training.imagenet.dev/job-name"
JOB_ROLE = "training.imagenet.dev/job-role"
ATTEMPT = "training.imagenet.dev/attempt"
REPLICA_INDEX = "training.imagenet.dev/replica-index"
GENERATION = "training.imagenet.dev/generation"
"""The generation of the job from which a pod was created."""
RESULT = "training.imagenet.dev/result"
"""Whether a pod's program leaves its result in its termination message."""
RESULT_EXPECTED = "Expected"
SUSPENDED = "training.imagenet.dev/suspended"
"""Of a Job that the operator has suspended, and not another controller."""
MANAGED_BY = "app.kubernetes.io/managed-by"
APPLICATION = "app.kubernetes.io/name"

# A label's value: empty, or up to 63 characters with alphanumeric ends.
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def of_child(job_name: str, role: str) -> dict[str, str]:
    """Return the labels of a child that belongs to no attempt."""
    return _checked(
        {
            MANAGED_BY: "imagenet-operator",
            APPLICATION: "imagenetjob",
            JOB_NAME: job_name,
            JOB_ROLE: role,
        }
    )


def of_attempt(job_name: str, attempt: int, role: str) -> dict[str, str]:
    """Return the labels of a child that all pods of an attempt share."""
    return _checked({**of_child(job_name, role), ATTEMPT: str(attempt)})


def of_role(job_name: str, attempt: int, role: str, generation: int) -> dict[str, str]:
    """Return the labels that all pods of a role have in an attempt."""
    return _checked({**of_attempt(job_name, attempt, role), GENERATION: str(generation)})


def of_suspended_job() -> dict[str, str]:
    """Return the label of a Job that the operator has suspended."""
    return _checked({SUSPENDED: "true"})


def of_replica(index: int) -> dict[str, str]:
    """Return the label that is different for each pod of a role."""
    return _checked({REPLICA_INDEX: str(index)})


def select_attempt(job_name: str, attempt: int) -> dict[str, str]:
    """Return the labels that select exactly the pods of an attempt."""
    return _checked({JOB_NAME: job_name, ATTEMPT: str(attempt)})


def of_its_like(pod_labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a pod that select all pods of its role, and of its attempt if any.

    A pod of an earlier attempt may remain on an unreachable node.
    """
    return {key: pod_labels[key] for key in (JOB_NAME, JOB_ROLE, ATTEMPT) if key in pod_labels}


def owner(job: ImageNetJob) -> Manifest:
    """Return the owner reference of a child: the job is its controller."""
    return {
        "apiVersion": "imagenet.dev/v1alpha1",
        "kind": "ImageNetJob",
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_uid(item: Manifest) -> str | None:
    """Return the UID of an object's controller, if it has one."""
    for reference in item["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return None


def _checked(labels: dict[str, str]) -> dict[str, str]:
    for key, value in labels.items():
        if not _VALUE.fullmatch(value):
            raise ValueError(
                f"{value!r} cannot be the value of the label {key}: write up to 63 characters"
            )
    return labels

"""An ImageNetJob as the API server stores it, read into the model by `reconciler`.

The CRD refuses invalid jobs. But another version of the operator or of the CRD may have written a
job (`api.stored`), or validation was off when it was stored.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from imagenet_operator.api import ImageNetJob, stored, validation
from imagenet_operator.api.base import Manifest
from imagenet_operator.api.job import MANAGER
from imagenet_operator.api.stored import StoredJob
from imagenet_operator.api.templates import TemplateProfile
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.objects import Stored
from imagenet_operator.errors import Problem
from imagenet_operator.manifests.names import SCHEDULING_GATE


def read(item: Stored) -> StoredJob:
    """Return a stored job, with its resource version."""
    manifest = item.manifest()
    size = manifest.pop(objects.OMITTED_BYTES, None)
    found = stored.read(manifest)
    if size is not None:
        has = f"the job has {size:,} bytes without its status"
        hint = f"write at most {objects.JOB_BYTES:,}"
        found = StoredJob(found.job, (Problem("spec", has, hint, "operator"),))
    metadata = found.job.metadata.model_copy(update={"resource_version": str(item.version)})
    job = found.job.model_copy(update={"metadata": metadata})
    return StoredJob(job, found.problems, found.is_of_another_version)


def faults(found: StoredJob, manifest: Manifest, profile: TemplateProfile) -> list[Problem]:
    """Return why a job that has not started must fail: problems that no newer version accepts.

    Args:
        found: The job.
        manifest: Its JSON.
        profile: The operator's template profile.
    """
    if found.is_of_another_version:
        return []
    if objects.OMITTED_BYTES in manifest:
        return list(found.problems)
    # An earlier version may have admitted it, so rules for new jobs do not apply.
    status = found.job.status.model_copy(update={"start_time": datetime.now(UTC)})
    admitted = found.job.model_copy(update={"status": status})
    return validation.validate(manifest, admitted, profile)


def in_words(problems: Iterable[Problem]) -> str:
    """Return the problems of a job as one line."""
    return "; ".join(str(problem) for problem in problems)


def is_ours_to_run(manifest: Manifest) -> bool:
    """Whether this operator works on a stored object.

    It leaves jobs alone that are being deleted or that have another manager.
    """
    if "deletionTimestamp" in manifest["metadata"]:
        return False
    spec = manifest.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    manager = policy.get("managedBy") if isinstance(policy, dict) else None
    return manager in (None, MANAGER)


def waits_for_room(job: ImageNetJob, children: list[Manifest]) -> bool:
    """Whether pods of the job are held back until all of them fit."""
    return job.spec.run_policy.scheduling_policy.gang == "Wait" and any(
        gate["name"] == SCHEDULING_GATE
        for item in children
        if item["kind"] == "Pod"
        for gate in item["spec"].get("schedulingGates") or ()
    )

"""Access: whether the claims that a job names admit all pods that will use them.

Checked when the job starts, and when it resumes, because it may have more workers by then. A job
starts once all of its claims exist. Pods that share a claim for one node are placed on one node
(`manifests.volumes`), so the status records such claims for the builders. A claim for one pod, or
one that is only readable, fails the job before a pod is created that would never start. Claims that
are not observed are not checked: on one machine they are folders.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from imagenet_operator.api import ImageNetJob
from imagenet_operator.errors import Problem
from imagenet_operator.manifests import volumes
from imagenet_operator.manifests.volumes import Existing
from imagenet_operator.reconcile.types import Claim

_REMEDY = "name a claim with ReadWriteMany"


def missing(job: ImageNetJob, absent: Collection[str]) -> str | None:
    """Return the claims that a start has to wait for, as a message; None for none.

    A claim that the job creates itself, and may name for its output too, is not awaited.
    """
    awaited = set(absent) - volumes.claim_names(job)
    found = [
        f"{item.path}: there is no PersistentVolumeClaim {item.claim}"
        for item in volumes.existing(job)
        if item.claim in awaited
    ]
    return f"{'; '.join(found)}; waiting until it is created" if found else None


def problems(job: ImageNetJob, access: Mapping[str, tuple[str, ...]]) -> list[Problem]:
    """Return why the job cannot use the claims that it names.

    Args:
        job: The job.
        access: Claim → its access modes, of those that are seen.
    """
    found = [(item, access[item.claim]) for item in volumes.existing(job) if item.claim in access]
    return [problem for item, modes in found if (problem := _problem(item, modes)) is not None]


def differing(job: ImageNetJob, claims: Mapping[str, Claim]) -> list[tuple[Claim, str]]:
    """Return the claims of a former job that are not as this job asks for, each with a message.

    Args:
        job: The job.
        claims: Those that it has, or takes over, by name.
    """
    found = []
    for wanted in volumes.claims(job):
        claim = claims.get(wanted["metadata"]["name"])
        if claim is None or not claim.is_older_than(job.metadata.creation_timestamp):
            continue
        spec = wanted["spec"]
        asked, has = [], []
        if set(spec["accessModes"]) != set(claim.modes):
            asked.append(" and ".join(spec["accessModes"]))
            has.append(" and ".join(claim.modes))
        if spec.get("storageClassName") not in (None, claim.storage_class):
            asked.append(f"the StorageClass {spec['storageClassName']}")
            has.append(f"the StorageClass {claim.storage_class or 'none'}")
        if asked:
            message = (
                f"PersistentVolumeClaim {claim.name} of a former job exists with {', '.join(has)}; "
                f"the job asks for {', '.join(asked)}"
            )
            found.append((claim, message))
    return found


def single_node(job: ImageNetJob, access: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the claims that several pods can use only if they share a node, by name."""
    return tuple(
        sorted(
            {
                item.claim
                for item in volumes.existing(job)
                if item.claim in access and not _is_for_many(item, access[item.claim])
            }
        )
    )


def _is_for_many(item: Existing, modes: tuple[str, ...]) -> bool:
    return "ReadWriteMany" in modes or (not item.written and "ReadOnlyMany" in modes)


def _problem(item: Existing, modes: tuple[str, ...]) -> Problem | None:
    allowed = " and ".join(modes)
    if item.written and set(modes) == {"ReadOnlyMany"}:
        message = f"{item.claim} allows {allowed}, and the job has to write to it"
        return Problem(item.path, message, _REMEDY, "operator")
    field, pods = item.users
    if pods > 1 and set(modes) == {"ReadWriteOncePod"}:
        message = f"{item.claim} allows {allowed}, and {field} says {pods} pods"
        return Problem(item.path, message, f"{_REMEDY}, or write 1 there", "operator")
    return None

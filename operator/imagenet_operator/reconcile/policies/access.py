"""Access: whether the claims that a job names let as many pods in as will use them.

Looked at once, when the job starts: what a claim allows never changes. So a job waits with its
start until all of them are there. One that only a single node can mount makes pods share a node
(`manifests.volumes`), which the status has to tell the builders; one that only a single pod can
mount, or that nobody can write to, fails the job before anything is made, and not after hours with
a pod that waits for ever. Where nobody has looked for a claim (on one machine it is a folder)
nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.problems import Problem
from imagenet_operator.manifests import volumes
from imagenet_operator.manifests.volumes import Existing

_ANOTHER = "name a claim with ReadWriteMany"


def missing(job: ImageNetJob, absent: Collection[str]) -> str | None:
    """Return for which claims a start has to wait, in words for people; None for none.

    Not for one that the job makes itself, which it may name for its results as well.
    """
    awaited = set(absent) - volumes.claim_names(job)
    found = [
        f"{item.path}: there is no PersistentVolumeClaim {item.claim}"
        for item in volumes.existing(job)
        if item.claim in awaited
    ]
    return f"{'; '.join(found)}; waiting until it is made" if found else None


def problems(job: ImageNetJob, access: Mapping[str, tuple[str, ...]]) -> list[Problem]:
    """Return why the job cannot use the claims that it names.

    Args:
        job: The job.
        access: Claim → its access modes, of those that are seen.
    """
    found = [(item, access[item.claim]) for item in volumes.existing(job) if item.claim in access]
    return [problem for item, modes in found if (problem := _problem(item, modes)) is not None]


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
        return Problem(item.path, message, _ANOTHER, "operator")
    field, pods = item.users
    if pods > 1 and set(modes) == {"ReadWriteOncePod"}:
        message = f"{item.claim} allows {allowed}, and {field} says {pods} pods"
        return Problem(item.path, message, f"{_ANOTHER}, or write 1 there", "operator")
    return None

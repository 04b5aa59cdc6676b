"""Cleanup of a finished job by cleanPodPolicy.

None keeps everything as it stands, even pods that still run (to look into a hang); Running deletes
what could still run, and keeps finished pods for their logs; All deletes every pod and Job. What
pods share goes with them, and a NetworkPolicy after them: until a program has ended, it listens.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from imagenet_operator.manifests.protection import NETWORK_POLICY
from imagenet_operator.reconcile.types import Attempt, Observed, Reference


def leftovers(
    policy: Literal["None", "Running", "All"], observed: Observed
) -> tuple[Reference, ...]:
    """Return what the policy wants deleted of what is still there."""
    if policy == "None":
        return ()
    everything = policy == "All"
    jobs = tuple(
        job.reference
        for job in observed.jobs.values()
        if not job.terminating and (everything or not job.finished)
    )
    pods = tuple(
        member.reference
        for attempt in observed.attempts.values()
        for member in attempt.members
        if not member.terminating and (everything or member.live)
    )
    return jobs + pods + observed.protection + shared(observed.attempts.values())


def is_held_up(policy: Literal["None", "Running", "All"], observed: Observed) -> bool:
    """Whether something is still to be deleted once pods have ended."""
    left = {item for attempt in observed.attempts.values() for item in attempt.shared}
    return policy != "None" and left != set(shared(observed.attempts.values()))


def attempts(ended: Collection[Attempt]) -> tuple[Reference, ...]:
    """Return every pod of attempts that have ended, and what they share."""
    pods = tuple(
        member.reference
        for attempt in ended
        for member in attempt.members
        if not member.terminating
    )
    return pods + shared(ended)


def shared(ended: Collection[Attempt]) -> tuple[Reference, ...]:
    """Return what the pods of attempts share, but for what still protects one of them."""
    return tuple(
        item
        for attempt in ended
        for item in attempt.shared
        if item.kind != NETWORK_POLICY or not attempt.is_exposed
    )

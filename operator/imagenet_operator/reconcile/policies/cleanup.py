"""Cleanup of a finished job by cleanPodPolicy.

None keeps everything as it stands, even pods that still run (to look into a hang); Running deletes
what could still run, and keeps finished pods for their logs; All deletes every pod and Job.
"""

from __future__ import annotations

from typing import Literal

from imagenet_operator.reconcile.types import Observed, Reference


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
    return jobs + pods + services(observed)


def attempts(observed: Observed) -> tuple[Reference, ...]:
    """Return every pod and Service of every attempt: what has to go between two attempts."""
    pods = tuple(
        member.reference
        for attempt in observed.attempts.values()
        for member in attempt.members
        if not member.terminating
    )
    return pods + services(observed)


def services(observed: Observed) -> tuple[Reference, ...]:
    """Return every Service of every attempt."""
    return tuple(service for attempt in observed.attempts.values() for service in attempt.services)

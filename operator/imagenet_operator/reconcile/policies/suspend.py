"""Suspension: the Jobs of the preparation are suspended, an attempt is ended without a charge.

The dataset, the outputs and the status stay; the next attempt resumes from the latest checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable

from imagenet_operator.api.status import TrainingStatus
from imagenet_operator.reconcile.types import (
    Charge,
    End,
    Observed,
    Patch,
    PreparationJob,
    Reference,
)

END = End("Suspended", "the job is suspended", Charge.SUSPENSION)
"""The end of an attempt of a suspended job."""


def patches(jobs: Iterable[PreparationJob], suspended: bool) -> tuple[Patch, ...]:
    """Return the patches that suspend or resume the Jobs that have not finished.

    A Job in a queue of Kueue is Kueue's to suspend and resume.
    """
    return tuple(
        Patch("Job", job.name, job.uid, {"spec": {"suspend": suspended}})
        for job in jobs
        if not job.finished and not job.terminating and job.suspended != suspended
        if not job.queued
    )


def withdrawn(jobs: Iterable[PreparationJob]) -> tuple[Reference, ...]:
    """Return the Jobs of a suspended job that have to be deleted, and are created again later.

    Kueue would let a Job go on for which it has quota, whoever suspended it.
    """
    return tuple(
        job.reference for job in jobs if job.queued and not job.finished and not job.terminating
    )


def message(training: TrainingStatus | None) -> str:
    """Return the message of Suspended, with the number of the attempt that was ended."""
    attempt = "" if training is None else f"; the last was attempt {training.attempt}"
    return f"no pod of the job is left{attempt}"


def is_quiet(observed: Observed) -> bool:
    """Whether no pod of the job may still run."""
    return not any(job.active for job in observed.jobs.values()) and not any(
        attempt.present for attempt in observed.attempts.values()
    )

"""Suspension: the Jobs of the preparation are suspended, an attempt is ended without a charge.

The dataset, the outputs and the status stay; the next attempt resumes from the latest checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable

from imagenet_operator.manifests.labels import of_suspended_job
from imagenet_operator.reconcile.types import (
    Charge,
    End,
    Observed,
    Patch,
    PreparationJob,
    Reference,
)
from imagenet_spec.resource.status import TrainingStatus

END = End("Suspended", "the job is suspended", Charge.SUSPENSION)
"""The end of an attempt of a suspended job."""


def patches(
    jobs: Iterable[PreparationJob], suspended: bool, *, was_suspended: bool
) -> tuple[Patch, ...]:
    """Return the patches that suspend or resume the Jobs that have not finished.

    What another controller has suspended is that one's to resume. Kueue, for one, suspends again
    what others resume. But an operator of an earlier release leaves no label on what it suspends.
    """
    label = {name: value if suspended else None for name, value in of_suspended_job().items()}
    change = {"metadata": {"labels": label}, "spec": {"suspend": suspended}}
    return tuple(
        Patch("Job", job.name, job.uid, change)
        for job in jobs
        if not job.finished and not job.terminating and job.suspended != suspended
        if not job.queued and (was_suspended or not job.held_by_others)
    )


def withdrawn(jobs: Iterable[PreparationJob], *, was_suspended: bool) -> tuple[Reference, ...]:
    """Return the Jobs of a suspended job that have to be deleted, and are created again later.

    Kueue resumes a Job for which it has quota, even if this operator suspended it. One that Kueue
    holds because it has no queue gets the queue that the job has when it is created again.
    """
    return tuple(
        job.reference
        for job in jobs
        if job.queued or (job.held_by_others and not was_suspended)
        if not job.finished and not job.terminating
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

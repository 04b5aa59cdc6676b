"""The explanation of a wait: the condition says why a job does not start, whatever it waits for.

Before the steps of `decide`, image and configuration errors are recorded, and a job that had one
for too long fails. After them, the cause that the policy `waiting` finds replaces the plain words
of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from imagenet_operator.reconcile import uploads
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import (
    gang,
    job_status,
    shared_dataset,
    version_skew,
    waiting,
)
from imagenet_operator.reconcile.types import (
    INITIALIZING,
    TERMINATING,
    Decision,
    Observed,
    ReconcileSettings,
    Refusal,
    WaitingObject,
)
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Status

_NOT_REPLACED = frozenset(
    {"NameConflict", "ClaimTerminating", "ClaimDiffers", version_skew.UNSUPPORTED}
)
"""Reasons of a step that say what the job waits for themselves."""

WAITING_REASONS = (waiting.REASONS - {INITIALIZING}) | _NOT_REPLACED
WAITING_REASONS |= {"ClaimNotFound", shared_dataset.REASON}
"""The reasons of a condition by which a job does not start; a running init container is none."""


def fail_if_it_cannot_start(context: ReconcileContext) -> bool:
    """Record image and configuration errors; fail the job if one lasts too long, return whether."""
    policy = context.job.spec.run_policy
    wait = _found(context)
    is_error = wait is not None and wait.is_error
    errors = context.status.start_errors
    # Without the Events, an error that only they name may last.
    if is_error or context.observed.events is not None:
        errors = waiting.recorded_errors(errors, is_error, context.now)
    context.update(start_errors=errors)
    limit = waiting.start_deadline(errors, policy.start_deadline_seconds)
    if wait is None or limit is None or policy.suspend or context.unsupported:
        return False
    if context.now < limit:
        context.requeue_at(limit)
        return False
    if waiting.is_worth_a_wait(context.job, context.status):
        return False
    seconds = policy.start_deadline_seconds
    message = f"pods could not start for {seconds} s: {wait.message}"
    context.set_condition(job_status.awaited(context.status), False, wait.reason, wait.message)
    context.fail(waiting.START_DEADLINE_EXCEEDED, message)
    return True


def explain(context: ReconcileContext) -> None:
    """Set the condition of an unfinished job to the cause of its wait, if there is one."""
    kind = job_status.awaited(context.status)
    if context.status.completion_time is not None or context.holds(kind):
        return
    objects = _of_this_step(context.status, context.observed)
    context.requeue_at(waiting.next_check(objects, context.now, context.settings.requeue_interval))
    _restore(context)
    if job_status.reason_of(context.status.conditions, kind) in _NOT_REPLACED:
        return
    wait = _found(context)
    # A refused attempt does not wait for the pods of the one before any more. If this decision
    # creates something and is applied, nothing is refused any more.
    is_ending = wait is not None and wait.reason == waiting.CAUSES[TERMINATING].reason
    refusal = None if context.created else context.observed.refusal
    if refusal is not None and (wait is None or is_ending):
        former = job_status.message_of(context.job.status.conditions, kind)
        wait = waiting.refused(refusal, former)
    if wait is not None:
        context.set_condition(kind, False, wait.reason, wait.message)


def explain_refusal(
    job: ImageNetJob, refusal: Refusal, now: datetime, settings: ReconcileSettings
) -> Decision:
    """Return the decision that only says why a decision for a job could not be applied."""
    context = ReconcileContext(job, Observed(refusal=refusal), None, now, settings)
    explain(context)
    uploads.explain_refusal(context, refusal)
    decision = context.decision()
    # The new spec is not applied yet.
    generation = job.status.observed_generation
    return replace(
        decision, status=decision.status.model_copy(update={"observed_generation": generation})
    )


def _restore(context: ReconcileContext) -> None:
    """Replace an explanation that has ended between attempts, when no step sets Running."""
    training = context.status.training
    if training is None or training.outcome is None:
        return
    reason = job_status.reason_of(context.status.conditions, "Running")
    is_kept = training.outcome.reason == gang.TIMED_OUT and reason in waiting.UNPLACED
    if reason in waiting.REASONS and not is_kept:
        context.set_condition("Running", False, training.outcome.reason, training.outcome.message)


def _found(context: ReconcileContext) -> waiting.Wait | None:
    objects = _of_this_step(context.status, context.observed)
    kind = job_status.awaited(context.status)
    former = job_status.message_of(context.job.status.conditions, kind)
    return waiting.find(objects, context.observed.events or {}, context.now, former)


def _of_this_step(status: Status, observed: Observed) -> Sequence[WaitingObject]:
    """Return what the job waits for: the preparation, the attempt, or pods of former attempts."""
    if not job_status.holds(status.conditions, "DatasetReady"):
        return [item for item in observed.waiting if item.attempt is None]
    training = status.training
    if training is None or training.outcome is not None:
        return [item for item in observed.waiting if item.reason == TERMINATING]
    return [
        _since_gates_are_lifted(item, training.schedulable_time)
        for item in observed.waiting
        if item.attempt == training.attempt
    ]


def _since_gates_are_lifted(item: WaitingObject, lifted: datetime | None) -> WaitingObject:
    """Return what waits, without the time in which the operator held it back."""
    if lifted is None or item.reason == TERMINATING:
        return item
    return replace(item, since=lifted if item.since is None else max(item.since, lifted))

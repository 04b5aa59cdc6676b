"""The decision of one reconcile: (job, observed, sample, now) → what to do.

Pure and level-triggered: only the job's status and its children are remembered. A reconcile may be
repeated, skipped, or cut off between any two of its actions. Three rules make that safe:

- A fact that may vanish is recorded before a decision relies on it, or deletes its source. The
  status is written last, so a record is acted upon in the next reconcile, which is asked for now.
- Names are deterministic, and an attempt's number is never used again. So an object of a reconcile
  that was cut off is recognised, and creating it again changes nothing.
- Only objects of this job are deleted, by UID.

The caller may read from caches, as long as the children are not older than the status: an object
that a cache does not have yet would look as if it had vanished. The Kubernetes reconciler makes a
decision that hangs on an absent object again, from live reads, before it applies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from imagenet_operator.manifests import preview
from imagenet_operator.reconcile import explanation, uploads
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import cleanup, job_status, suspend, version_skew, waiting
from imagenet_operator.reconcile.preparation import prepare, release_held
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.training import train
from imagenet_operator.reconcile.types import (
    DEFAULTS,
    Decision,
    Observed,
    ReconcileSettings,
    Reference,
)
from imagenet_spec.errors import InvalidJob, InvalidTemplate, Problem
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.job import MANAGER
from imagenet_spec.resource.status import Status

_ACCEPTED = ("JobAccepted", "the job is valid")
"""The reason and message of Created once the job is accepted."""


def decide(
    job: ImageNetJob,
    observed: Observed,
    sample: Sample | None,
    now: datetime,
    settings: ReconcileSettings = DEFAULTS,
) -> Decision:
    """Return what to do about a job.

    The job has its recorded status, and is not newer than the children. `now` has a time zone.
    """
    if job.metadata.deletion_timestamp is not None or not is_managed(job):
        return Decision(status=job.status)
    context = ReconcileContext(job, observed, sample, now, settings)
    context.status = version_skew.rebuilt(job.status, observed.attempts, context.now)
    if is_finished(context.status):
        is_deleted = finish(context)
        decision = context.decision()
        # A job that is deleted has no status to write, whatever a newer operator would add to it.
        return replace(decision, status=job.status) if is_deleted else decision
    context.requeue_at(context.now + settings.resync_period)
    try:
        if _is_accepted(context) and not explanation.fail_if_it_cannot_start(context):
            _record_left_out_metrics(context)
            was_ready = _has_dataset(context)
            if not was_ready:
                prepare(context)
            # A dataset that was prepared before cannot vanish, so the status needs no record first.
            if was_ready or (context.is_ready_at_once and context.holds("DatasetReady")):
                train(context)
            uploads.publish(context)
            explanation.explain(context)
            if not context.unsupported:
                release_held(context)
                context.patch(cleanup.claim_owners(job, observed.claims.values()))
        _record_suspension(context)
    except InvalidTemplate as error:
        return reject(job, "InvalidTemplate", str(error), now, settings)
    except InvalidJob as error:
        return reject(job, rejection_reason(error.problems), str(error), now, settings)
    return context.decision()


def reject(
    job: ImageNetJob, reason: str, message: str, now: datetime, settings: ReconcileSettings
) -> Decision:
    """Return the decision that fails a job which cannot be reconciled; it is not retried.

    The clusters reject a spec that this version cannot read, and an object that the API server will
    never store.
    """
    context = ReconcileContext(job, Observed(), None, now, settings)
    context.fail(reason, message)
    return context.decision()


def rejection_reason(problems: Sequence[Problem]) -> str:
    """Return the reason of Failed for a job with these problems; one at least."""
    return "InvalidTemplate" if all(item.is_of_template for item in problems) else "InvalidSpec"


def is_managed(job: ImageNetJob) -> bool:
    """Whether this operator manages the job; a job of another manager is left alone."""
    return job.spec.run_policy.managed_by in (None, MANAGER)


def is_finished(status: Status) -> bool:
    """Whether the job has succeeded or failed; then it is only cleaned up."""
    return job_status.holds(status.conditions, "Succeeded") or job_status.holds(
        status.conditions, "Failed"
    )


def is_resuming(job: ImageNetJob) -> bool:
    """Return whether a suspended job goes on, with workers that may have changed meanwhile."""
    return (
        not job.spec.run_policy.suspend
        and job_status.holds(job.status.conditions, "Suspended")
        and not is_finished(job.status)
    )


def _is_accepted(context: ReconcileContext) -> bool:
    """Accept a valid job once the claims that it names exist; return whether it is accepted.

    The claims have to admit all of its pods, at its start and again when it resumes.

    Raises:
        InvalidJob: The access modes of a claim are not enough, or a manifest cannot be built.
        InvalidTemplate: A template is invalid, or sets a field that the operator owns.
    """
    # The reason of Created, while this version does not accept a field of the spec.
    if context.unsupported:
        reason, message = version_skew.why_unsupported(context.unsupported)
        has_started = context.status.start_time is not None
        if context.set_condition("Created", has_started, reason, message):
            context.record_warning(reason, message)
    elif version_skew.was_unsupported(context.status):
        context.set_condition("Created", True, *_ACCEPTED)
    is_new = context.status.start_time is None
    if context.unsupported:
        return not is_new
    job, observed = context.job, context.observed
    if is_new and not observed.is_built:
        # A dry run: a template that cannot be merged fails the job now, not after the preparation.
        preview.everything(job, context.settings.manifests)
    if (is_new or is_resuming(job)) and (found := waiting.claim_problems(job, observed.access)):
        raise InvalidJob(found)
    if not is_new:
        return True
    if (missing := waiting.missing_claims(job, observed.absent)) is not None:
        if context.set_condition("Created", False, "ClaimNotFound", missing):
            context.record_warning("ClaimNotFound", missing)
        context.requeue_later()
        return False
    claims = waiting.single_node_claims(job, observed.access)
    context.update(start_time=context.now, single_node_claims=claims or None)
    context.set_condition("Created", True, *_ACCEPTED)
    return True


def _has_dataset(context: ReconcileContext) -> bool:
    """Whether training may begin, or has begun.

    An older CRD may have pruned the record of a dataset: the preparation runs again before the next
    attempt.
    """
    if not context.holds("DatasetReady"):
        return False
    training = context.status.training
    is_training = training is not None and training.outcome is None
    has_record = context.status.listed is not None or context.is_prepared
    return has_record or is_training or bool(context.unsupported)


def finish(context: ReconcileContext) -> bool:
    """Clean up a job that has ended; return whether it is deleted, as its time to live is over."""
    policy, metadata = context.job.spec.run_policy, context.job.metadata
    uploads.publish(context)
    uploads.upload(context)
    pending = uploads.pending(context.job, context.observed)
    context.delete(cleanup.leftovers(policy.clean_pod_policy, context.observed, pending))
    changes = cleanup.claim_owners(context.job, context.observed.claims.values())
    if not context.unsupported:
        context.patch(changes)
    is_held_up = cleanup.is_held_up(policy.clean_pod_policy, context.observed)
    if context.deleted or is_held_up or pending:
        context.requeue_later()
    if pending:
        return False
    deletion = cleanup.deletion_time(context.job)
    if deletion is None or context.now < deletion:
        context.requeue_at(deletion)
    elif changes and policy.retention_policy == "Retain":
        # Claims that still name the job as their owner would be deleted with it.
        context.requeue_later()
    else:
        context.delete([Reference("ImageNetJob", metadata.name, metadata.uid)])
        return True
    return False


def _record_left_out_metrics(context: ReconcileContext) -> None:
    """Record which pods of the current attempt have metrics that exceed a limit."""
    if context.sample is not None:
        training = context.status.training
        is_current = context.sample.asked == (None if training is None else training.attempt)
        context.update(metrics_left_out=(is_current and context.sample.left_out) or None)


def _record_suspension(context: ReconcileContext) -> None:
    """Set Suspended when the last pod of the job has ended, and unset it when it is resumed."""
    if not context.job.spec.run_policy.suspend:
        # A job that cannot start stays without pods.
        if context.holds("Suspended") and not context.unsupported:
            context.set_condition("Suspended", False, "Resumed", "the job is resumed")
            context.record_event("Resumed", "the job is resumed")
    elif suspend.is_quiet(context.observed) and not is_finished(context.status):
        # The template may be corrected meanwhile.
        context.update(start_failures_since=None)
        message = suspend.message(context.status.training)
        if context.set_condition("Suspended", True, "Suspended", message):
            context.record_event("Suspended", message)

"""Publishing: the Job that uploads a sealed dataset beside training.

It begins when the dataset is ready, and neither its failure nor its duration changes what becomes
of the training. A job that has ended keeps it until it ends, or has not started for
startDeadlineSeconds. On a claim that is attached to one
node at a time, it begins when the training has ended: its pod could take the volume to a node
without room for the workers.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from imagenet_operator.api import ImageNetJob
from imagenet_operator.manifests import dataset, volumes
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import job_status, suspend, waiting
from imagenet_operator.reconcile.preparation import missing_protection, node_lost
from imagenet_operator.reconcile.types import Observed, PreparationJob

CONDITION: Final = "DatasetPublished"
PUBLISHED, FAILED = "Published", "PublishFailed"


def publish(context: ReconcileContext) -> None:
    """Take the next step of publishing, if the job asks for it and its dataset is ready."""
    if not is_under_way(context.job, context.observed):
        return
    job = context.observed.jobs.get(dataset.PUBLISH)
    # A job that has ended cannot be suspended.
    has_ended = context.status.completion_time is not None
    suspended = context.job.spec.run_policy.suspend and not has_ended
    if job is not None and job.has_ended:
        _record_end(context, job)
    elif suspended:
        context.set_condition(CONDITION, False, "Suspended", "the job is suspended")
    elif not context.unsupported and (cause := _never_starts(context, job)) is not None:
        _give_up(context, job, cause)
    elif job is None:
        _begin(context)
    elif job.stranded and not job.terminating and not context.unsupported:
        # The next one continues the upload.
        context.delete([job.reference])
        context.record_warning(*node_lost(dataset.PUBLISH))
    elif context.unsupported or context.create_or_wait(CONDITION, missing_protection(context)):
        _explain(context)
    if job is not None and not context.unsupported:
        context.patch(suspend.patches([job], suspended, was_suspended=context.was_suspended))
        if suspended:
            context.delete(suspend.withdrawn([job], was_suspended=context.was_suspended))


def is_under_way(job: ImageNetJob, observed: Observed) -> bool:
    """Whether a dataset is to be published, and its end is not recorded."""
    if job.spec.dataset.publish is None:
        return False
    found = job_status.find(job.status.conditions, CONDITION)
    if found is not None and found.reason in (PUBLISHED, FAILED):
        return False
    is_ready = job_status.holds(job.status.conditions, "DatasetReady")
    return is_ready or dataset.PUBLISH in observed.jobs


def _never_starts(context: ReconcileContext, job: PreparationJob | None) -> str | None:
    """Return why the Job's pod has not started for startDeadlineSeconds; None if it may start yet.

    Before the job has ended, only an error that waiting does not cure counts.
    """
    ended, now = context.status.completion_time, context.now
    limit = timedelta(seconds=context.job.spec.run_policy.start_deadline_seconds)
    condition = job_status.find(context.status.conditions, CONDITION)
    if job is None:
        if ended is None or now < ended + limit or condition is None:
            return None
        refusal = context.observed.refusal
        if refusal is not None:
            return waiting.refused(refusal).message
        return condition.message if condition.reason == "NameConflict" else None
    objects = [item for item in context.observed.waiting if item.role == dataset.PUBLISH]
    wait = waiting.find(objects, context.observed.events or {}, now)
    if wait is None or wait.reason == waiting.CAUSES["Pulling"].reason:
        return None
    if ended is None and not wait.is_error:
        return None
    times = [*(item.since for item in objects), None if wait.is_error else ended]
    since = max((time for time in times if time is not None), default=now)
    context.requeue_at(since + limit)
    return wait.message if now >= since + limit else None


def _give_up(context: ReconcileContext, job: PreparationJob | None, cause: str) -> None:
    """Record that the Job cannot start: it must not keep an ended job for ever."""
    seconds = context.job.spec.run_policy.start_deadline_seconds
    message = f"publish: could not start for {seconds} s: {cause}"
    context.set_condition(CONDITION, False, FAILED, message)
    context.record_warning(FAILED, message)
    if job is not None and not job.terminating:
        context.delete([job.reference])
    context.requeue_now()


def _begin(context: ReconcileContext) -> None:
    """Create the Job."""
    if context.unsupported:
        return
    claim = volumes.dataset_claim(context.described)
    assert claim is not None
    if volumes.is_single_node(context.described, claim) and context.status.completion_time is None:
        message = f"PersistentVolumeClaim {claim} is attached to one node: it follows training"
        context.set_condition(CONDITION, False, "WaitingForTraining", message)
        return
    built = dataset.publish_job(context.described, context.settings.manifests)
    if context.create_or_wait(CONDITION, [*missing_protection(context), built]):
        context.set_condition(CONDITION, False, "Publishing", "uploading the dataset")


def _record_end(context: ReconcileContext, job: PreparationJob) -> None:
    """Record the end of the Job, which may be deleted then."""
    url = context.job.spec.dataset.publish_url
    if job.complete:
        context.set_condition(CONDITION, True, PUBLISHED, f"the dataset is in {url}")
        context.record_event(PUBLISHED, f"the dataset is in {url}")
    else:
        context.set_condition(CONDITION, False, FAILED, f"publish: {job.failure}")
        context.record_warning(FAILED, f"publish: {job.failure}")
    context.requeue_now()


def _explain(context: ReconcileContext) -> None:
    """Set the condition to the cause of a wait, if the Job's pod waits."""
    objects = [item for item in context.observed.waiting if item.role == dataset.PUBLISH]
    former = job_status.find(context.job.status.conditions, CONDITION)
    message = "" if former is None else former.message
    wait = waiting.find(objects, context.observed.events or {}, context.now, message)
    if wait is None:
        context.set_condition(CONDITION, False, "Publishing", "uploading the dataset")
    else:
        context.set_condition(CONDITION, False, wait.reason, wait.message)
    context.requeue_at(waiting.next_check(objects, context.now, context.settings.requeue_interval))

"""What a job uploads: its dataset beside training, and its model after it. Each is one Job.

Publishing uploads a sealed dataset. It begins when the dataset is ready, and neither its failure
nor its duration changes the training. A job that has ended keeps its Job until that ends, or has
not started for startDeadlineSeconds; the time in a queue does not count. On a claim that is
attached to one node at a time, it begins when the training has ended: its pod could take the volume
to a node without room for the workers.

The upload of a model begins when the job has succeeded, and a failure does not change that. A Job
that has failed is created again after a wait, which doubles; the next one sends what is missing.
`status.upload` counts the failures, up to a limit. Only then may a job be deleted by its
ttlSecondsAfterFinished: a claim may go with it. Another place in the spec starts the count again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pydantic import ValidationError

from imagenet_operator.manifests import dataset, volumes
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import backoff, job_status, suspend, waiting
from imagenet_operator.reconcile.preparation import missing_protection, node_lost
from imagenet_operator.reconcile.types import (
    QUEUED,
    Manifest,
    Observed,
    PreparationJob,
    Refusal,
)
from imagenet_spec import stored
from imagenet_spec.errors import InvalidJob, InvalidTemplate
from imagenet_spec.names import attempt_folder
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.fields import Text
from imagenet_spec.resource.status import ConditionType, ModelStatus, UploadStatus

_PUBLISHED: Final = "DatasetPublished"
_PUBLISH_FAILED: Final = "PublishFailed"
UPLOADED: Final = "ModelUploaded"
_UPLOAD_FAILED: Final = "UploadFailed"
_UPLOAD_LIMIT: Final = "UploadLimitExceeded"


@dataclass(frozen=True)
class _Upload:
    """The role and condition of one of the two, and the condition's words while it runs."""

    role: str
    condition: ConditionType
    reason: str
    message: str


_OF_DATASET = _Upload(dataset.PUBLISH, _PUBLISHED, "Publishing", "uploading the dataset")
_OF_MODEL = _Upload(dataset.UPLOAD, UPLOADED, "Uploading", "uploading the model")


class UploadResult(Model):
    """The termination message of an upload."""

    url: Text
    """The folder in the bucket."""

    endpoint: Text | None = None
    """The S3 API of the bucket; None for AWS's."""


def pending(job: ImageNetJob, observed: Observed) -> frozenset[str]:
    """Return the roles of the uploads that go on although the job has ended."""
    roles = {
        dataset.PUBLISH: is_publishing(job, observed),
        dataset.UPLOAD: is_uploading(job),
    }
    return frozenset(role for role, is_pending in roles.items() if is_pending)


def explain_refusal(context: ReconcileContext, refusal: Refusal) -> None:
    """Set the conditions of the uploads of an ended job to what the API server refuses."""
    if context.status.completion_time is None:
        return
    roles = pending(context.job, context.observed)
    for upload in (_OF_DATASET, _OF_MODEL):
        if upload.role in roles:
            former = job_status.message_of(context.status.conditions, upload.condition)
            wait = waiting.refused(refusal, former)
            context.set_condition(upload.condition, False, wait.reason, wait.message)


def publish(context: ReconcileContext) -> None:
    """Take the next step of publishing, if the job asks for it and its dataset is ready."""
    if not is_publishing(context.job, context.observed):
        return
    job = context.observed.jobs.get(dataset.PUBLISH)
    # A job that has ended cannot be suspended.
    has_ended = context.status.completion_time is not None
    suspended = context.job.spec.run_policy.suspend and not has_ended
    if job is not None and job.has_ended:
        record_published(context, job)
    elif (
        not suspended
        and not context.unsupported
        and (cause := _why_never_started(context, _OF_DATASET, job)) is not None
    ):
        # It must not keep an ended job for ever.
        message = f"publish: {cause}"
        context.set_condition(_PUBLISHED, False, _PUBLISH_FAILED, message)
        context.record_warning(_PUBLISH_FAILED, message)
        if job is not None and not job.terminating:
            context.delete([job.reference])
        context.requeue_now()
    else:
        _go_on(context, _OF_DATASET, job, suspended, lambda: _begin_to_publish(context))


def _go_on(
    context: ReconcileContext,
    upload: _Upload,
    job: PreparationJob | None,
    suspended: bool,
    begin: Callable[[], None],
) -> None:
    """Begin an upload if it has no Job, suspend it or resume it, and say what it waits for."""
    if suspended:
        context.set_condition(upload.condition, False, "Suspended", "the job is suspended")
    elif job is None:
        if not context.unsupported:
            begin()
    elif job.stranded and not job.terminating and not context.unsupported:
        # The next one continues the upload.
        context.delete([job.reference])
        context.record_warning(*node_lost(upload.role))
    elif context.unsupported or context.create_or_wait(
        upload.condition, missing_protection(context)
    ):
        objects = [item for item in context.observed.waiting if item.role == upload.role]
        former = job_status.message_of(context.job.status.conditions, upload.condition)
        wait = waiting.find(objects, context.observed.events or {}, context.now, former)
        reason, message = upload.reason, upload.message
        if wait is not None:
            reason, message = wait.reason, wait.message
        context.set_condition(upload.condition, False, reason, message)
        interval = context.settings.requeue_interval
        context.requeue_at(waiting.next_check(objects, context.now, interval))
    if job is not None and not context.unsupported:
        context.patch(suspend.patches([job], suspended, was_suspended=context.was_suspended))
        if suspended:
            context.delete(suspend.withdrawn([job], was_suspended=context.was_suspended))


def _create(context: ReconcileContext, upload: _Upload, built: Manifest) -> None:
    if context.create_or_wait(upload.condition, [*missing_protection(context), built]):
        context.set_condition(upload.condition, False, upload.reason, upload.message)


def record_published(context: ReconcileContext, job: PreparationJob) -> None:
    """Record the end of the Job, which may be deleted then."""
    if job.complete:
        message = f"the dataset is in {context.job.spec.dataset.publish_url}"
        context.set_condition(_PUBLISHED, True, "Published", message)
        context.record_event("Published", message)
    else:
        context.set_condition(_PUBLISHED, False, _PUBLISH_FAILED, f"publish: {job.failure}")
        context.record_warning(_PUBLISH_FAILED, f"publish: {job.failure}")
    context.requeue_now()


def is_publishing(job: ImageNetJob, observed: Observed) -> bool:
    """Whether a dataset is to be published, and its end is not recorded."""
    if job.spec.dataset.publish is None:
        return False
    if job_status.reason_of(job.status.conditions, _PUBLISHED) in ("Published", _PUBLISH_FAILED):
        return False
    is_ready = job_status.holds(job.status.conditions, "DatasetReady")
    return is_ready or dataset.PUBLISH in observed.jobs


def _why_never_started(
    context: ReconcileContext, upload: _Upload, job: PreparationJob | None
) -> str | None:
    """Return why the Job's pod has not started for startDeadlineSeconds; None if it may start yet.

    Before the job has ended, only an error that waiting does not cure counts.
    """
    ended, now = context.status.completion_time, context.now
    seconds = context.job.spec.run_policy.start_deadline_seconds
    limit, so_long = timedelta(seconds=seconds), f"could not start for {seconds} s"
    condition = job_status.find(context.status.conditions, upload.condition)
    if job is None:
        if ended is None or now < ended + limit or condition is None:
            return None
        refusal = context.observed.refusal
        if refusal is not None:
            return f"{so_long}: {waiting.refused(refusal).message}"
        return f"{so_long}: {condition.message}" if condition.reason == "NameConflict" else None
    objects = [item for item in context.observed.waiting if item.role == upload.role]
    wait = waiting.find(objects, context.observed.events or {}, now)
    if wait is None or wait.reason == waiting.CAUSES["Pulling"].reason:
        return None
    if any(item.reason == QUEUED and item.message for item in objects):
        # Another Job would be the last in its queue.
        return None
    if ended is None and not wait.is_error:
        return None
    times = [*(item.since for item in objects), None if wait.is_error else ended]
    since = max((time for time in times if time is not None), default=now)
    context.requeue_at(since + limit)
    return f"{so_long}: {wait.message}" if now >= since + limit else None


def _begin_to_publish(context: ReconcileContext) -> None:
    claim = volumes.dataset_claim(context.described)
    assert claim is not None
    if volumes.is_single_node(context.described, claim) and context.status.completion_time is None:
        message = f"PersistentVolumeClaim {claim} is attached to one node: it follows training"
        context.set_condition(_PUBLISHED, False, "WaitingForTraining", message)
        return
    _create(
        context, _OF_DATASET, dataset.publish_job(context.described, context.settings.manifests)
    )


def is_uploading(job: ImageNetJob) -> bool:
    """Whether a model is to be uploaded, and its end is not recorded."""
    status = job.status
    if job.spec.training.upload is None or status.model is None:
        return False
    if not job_status.holds(status.conditions, "Succeeded"):
        return False
    found = job_status.find(status.conditions, UPLOADED)
    if found is None or _has_changed(job):
        return True
    return found.status != "True" and found.reason != _UPLOAD_LIMIT


def _has_changed(job: ImageNetJob) -> bool:
    """Whether the spec has changed since a failure of the upload was recorded."""
    found = job_status.find(job.status.conditions, UPLOADED)
    return (
        found is not None
        and found.reason in (_UPLOAD_FAILED, _UPLOAD_LIMIT)
        and found.observed_generation != job.metadata.generation
    )


def upload(context: ReconcileContext) -> None:
    """Take the next step of the upload of the model, if the job asks for it and has succeeded."""
    if not is_uploading(context.job):
        former = job_status.find(context.status.conditions, UPLOADED)
        is_removed = context.job.spec.training.upload is None and not context.unsupported
        if is_removed and former is not None and former.status != "True":
            context.update(upload=None)
            message = "the spec does not ask for an upload any more"
            context.set_condition(UPLOADED, False, "UploadRemoved", message)
        return
    job = context.observed.jobs.get(dataset.UPLOAD)
    if job is not None and job.terminating:
        context.requeue_later()
        return
    if _has_changed(context.job) and not context.unsupported:
        context.update(upload=None)
        context.delete([] if job is None else [job.reference])
        message = "the upload starts again, because the spec has changed"
        context.set_condition(UPLOADED, False, _OF_MODEL.reason, message)
        context.requeue_now()
        return
    failed = context.status.upload
    next_time = None if failed is None else failed.next_time
    suspended = context.job.spec.run_policy.suspend
    if job is not None and job.complete:
        _record_uploaded(context, job)
    elif job is not None and job.failure is not None and next_time is None:
        _record_failed(context, job.failure)
    elif (job is None or job.failure is not None) and next_time and context.now < next_time:
        context.requeue_at(next_time)
    elif context.unsupported:
        _go_on(context, _OF_MODEL, job, suspended, lambda: None)
    elif job is not None and job.failure is not None:
        context.delete([job.reference])
        context.requeue_now()
    elif not suspended and (cause := _why_never_started(context, _OF_MODEL, job)) is not None:
        context.delete([] if job is None else [job.reference])
        _record_failed(context, cause)
    else:
        if failed is not None:
            context.update(upload=UploadStatus(failures=failed.failures))
        if job is not None:
            # Beside a container that does not end, the Job counts no failure.
            context.delete(pod.reference for pod in job.held if not pod.succeeded)
        _go_on(context, _OF_MODEL, job, suspended, lambda: _begin_to_upload(context))


def _begin_to_upload(context: ReconcileContext) -> None:
    try:
        built = dataset.upload_job(
            context.described, context.training.attempt, context.settings.manifests
        )
    except (InvalidJob, InvalidTemplate) as error:
        # A template may change while a job is suspended, also after its end.
        _record_failed(context, str(error))
    else:
        _create(context, _OF_MODEL, built)


def _record_uploaded(context: ReconcileContext, job: PreparationJob) -> None:
    """Record that the bucket has the model; a Job for a former place is replaced."""
    folder, model = context.job.spec.training.upload, context.status.model
    assert folder is not None and model is not None
    place = volumes.upload_folder(context.job)
    expected = UploadResult(url=f"s3://{folder.bucket}/{place}", endpoint=folder.endpoint)
    try:
        result = stored.read_known(UploadResult, job.message or "")
    except ValidationError:
        # Its pod is gone.
        result = expected
    if result != expected:
        context.delete([] if context.unsupported else [job.reference])
        context.requeue_later()
        return
    path = f"{place}/{attempt_folder(context.training.attempt)}"
    uploaded = ModelStatus(
        bucket=folder.bucket, path=path, framework=model.framework, sha256=model.sha256
    )
    context.update(model=uploaded, upload=None)
    message = f"the model is in {uploaded.place}"
    context.set_condition(UPLOADED, True, "Uploaded", message)
    context.record_event("Uploaded", message)
    context.requeue_now()


def _record_failed(context: ReconcileContext, failure: str) -> None:
    former, limit = context.status.upload, context.settings.upload_limit
    failures = 1 if former is None else former.failures + 1
    if failures >= limit:
        tries = f"{failures} tries have failed" if failures > 1 else "it is not tried again"
        message = f"upload: {failure}; {tries}; the model is on the volume"
        context.update(upload=UploadStatus(failures=failures))
        context.set_condition(UPLOADED, False, _UPLOAD_LIMIT, message)
        context.record_warning(_UPLOAD_LIMIT, message)
        context.requeue_now()
        return
    delay = backoff.after_failed_upload(context.job.metadata.uid, failures, context.settings)
    next_time = context.now + delay
    message = f"upload: {failure}; the next try is at {next_time:%H:%M:%S} UTC"
    context.update(upload=UploadStatus(failures=failures, next_time=next_time))
    context.set_condition(UPLOADED, False, _UPLOAD_FAILED, message)
    context.record_warning(_UPLOAD_FAILED, message)
    context.requeue_at(next_time)

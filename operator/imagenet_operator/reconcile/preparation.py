"""The first half of a job: index the source, pack its shards, seal the dataset.

A step starts only after the step before it is recorded in the status, because Jobs and their pods
may vanish at any time. The result of `index` is recorded before `pack` is created. The seal is
recorded before any pod that trains is created. A Job that vanished before its end was recorded is
created again; a second run makes only the files that are missing on the volume.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import LongCount
from imagenet_operator.api.status import Clock, DatasetStatus, ImageCounts
from imagenet_operator.manifests import dataset, protection, volumes
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import clock, suspend
from imagenet_operator.reconcile.types import Manifest, PreparationJob

_WHAT = {
    dataset.INDEX: ("Indexing", "listing the images of the source"),
    dataset.PACK: ("Packing", "writing the shards"),
    dataset.SEAL: ("Sealing", "verifying the shards"),
}
"""The reason and message of DatasetReady while a step runs."""


class SealResult(Model):
    """The termination message of seal."""

    images: ImageCounts
    """Images in the dataset, those that were skipped not counted."""

    skipped: LongCount
    """Damaged images that were left out."""


def prepare(context: ReconcileContext) -> None:
    """Take the next step of the preparation."""
    suspended = context.job.spec.run_policy.suspend
    former = context.status.preparation or Clock()
    keep_time = clock.stop if suspended else clock.run
    context.update(preparation=keep_time(former, context.now))
    context.patch(suspend.patches(context.observed.jobs.values(), suspended))
    if _have_claims(context):
        _run_next_step(context)
    if not context.holds("DatasetReady") and not context.holds("Failed"):
        _check_deadline(context)


def _have_claims(context: ReconcileContext) -> bool:
    """Create the missing claims; return whether pods may refer to all of them.

    A claim that is not bound is no reason to wait: many are bound by their first pod.
    """
    seen = context.observed.claims
    wanted = volumes.claims(context.job)
    missing = [item for item in wanted if item["metadata"]["name"] not in seen]
    leaving = [claim.name for claim in seen.values() if claim.terminating]
    if leaving:
        message = f"PersistentVolumeClaim {', '.join(leaving)} is being deleted"
        context.set_condition("DatasetReady", False, "ClaimTerminating", message)
        context.requeue_later()
        return False
    if missing and context.job.spec.run_policy.suspend:
        # A dataset that was prepared before is ready at once, and claims are created only here.
        return not context.is_prepared
    return not missing or context.create_or_wait("DatasetReady", missing)


def _run_next_step(context: ReconcileContext) -> None:
    if context.is_prepared:
        _ready(context, "Prepared", "the dataset was prepared before")
        return
    jobs = context.observed.jobs
    index, pack, seal = (jobs.get(role) for role in (dataset.INDEX, dataset.PACK, dataset.SEAL))
    found = context.status.dataset
    settings = context.settings.manifests
    if found is None:
        if index is not None and index.complete:
            _record_index(context, index)
        else:
            _run(context, dataset.INDEX, index, lambda: dataset.index_job(context.job, settings))
    elif found.sealed:
        _ready(context, "Reused", "it was sealed before")
    elif seal is not None and seal.complete:
        context.update(dataset=_sealed(found, seal))
        _ready(context, "Sealed", "all shards are verified")
    elif seal is not None or (pack is not None and pack.complete):
        _run(context, dataset.SEAL, seal, lambda: dataset.seal_job(context.job, found, settings))
    else:
        _run(context, dataset.PACK, pack, lambda: dataset.pack_job(context.job, found, settings))


def _run(
    context: ReconcileContext, role: str, job: PreparationJob | None, build: Callable[[], Manifest]
) -> None:
    """Create the Job of a step if it is missing; fail the job if the Job failed."""
    if job is not None and job.failure is not None and not job.terminating:
        context.set_condition("DatasetReady", False, "PreparationFailed", f"{role}: {job.failure}")
        context.fail("PreparationFailed", f"{role}: {job.failure}")
    elif context.job.spec.run_policy.suspend:
        context.set_condition("DatasetReady", False, "Suspended", "the job is suspended")
    elif job is not None and job.stranded and not job.terminating:
        context.delete([job.reference])
        context.record_warning(
            "NodeLost", f"{role}: a pod is on a node that cannot be reached; starting again"
        )
    else:
        made = [] if job is not None else [build()]
        if context.create_or_wait("DatasetReady", [*_missing_protection(context), *made]):
            context.set_condition("DatasetReady", False, *_WHAT[role])


def _missing_protection(context: ReconcileContext) -> list[Manifest]:
    """Return the objects that protect the pods of a step and do not exist."""
    present = {item.kind for item in context.observed.protection}
    wanted = protection.of_preparation(context.job, context.settings.manifests)
    return [item for item in wanted if item["kind"] not in present]


def _record_index(context: ReconcileContext, index: PreparationJob) -> None:
    """Record the result of index; its Job runs again if the pod with the result vanished."""
    if index.message is None:
        if not index.terminating:
            context.delete([index.reference])
        return
    try:
        found = DatasetStatus.model_validate_json(index.message)
    except ValidationError:
        message = f"index wrote no readable result: {index.message[:200]!r}"
        context.set_condition("DatasetReady", False, "PreparationFailed", message)
        context.fail("PreparationFailed", message)
        return
    context.update(dataset=found)
    context.requeue_now()


def _sealed(found: DatasetStatus, seal: PreparationJob) -> DatasetStatus:
    """Mark the dataset as complete, with the counts of seal if its pod still exists."""
    try:
        result = SealResult.model_validate_json(seal.message or "")
    except ValidationError:
        return found.model_copy(update={"sealed": True})
    counts = {"images": result.images, "skipped_images": result.skipped}
    return found.model_copy(update={"sealed": True, **counts})


def _ready(context: ReconcileContext, reason: str, how: str) -> None:
    context.set_condition("DatasetReady", True, reason, how)
    context.update(preparation=clock.stop(context.status.preparation or Clock(), context.now))
    found = context.status.dataset
    left_out = f"; left out: {found.left_out}" if found is not None and found.left_out else ""
    told = how if found is None else f"{_summary(found)}: {how}{left_out}"
    context.record_event("DatasetReady", told)
    if found is not None and found.skipped_images:
        context.record_warning(
            "ImagesSkipped",
            f"{found.skipped_images:,} damaged images were left out; skipped.jsonl names them",
        )
    if not context.is_prepared:
        context.requeue_now()


def _summary(found: DatasetStatus) -> str:
    images = found.images
    return (
        f"dataset {found.key[:12]} with {images.train:,} + {images.validation:,} images "
        f"in {found.classes} classes"
    )


def _check_deadline(context: ReconcileContext) -> None:
    seconds = context.job.spec.run_policy.preparation_deadline_seconds
    spent = context.status.preparation or Clock()
    if clock.is_over(spent, seconds, context.now):
        context.fail("PreparationDeadlineExceeded", f"preparing the dataset took over {seconds} s")
    else:
        context.requeue_at(clock.ends_at(spent, seconds))

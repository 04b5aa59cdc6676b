"""The first half of a job: index the source, pack its shards, seal the dataset.

Each step is acted upon only once the one before it is recorded in the status, because Jobs and
their pods may go at any time: what `index` found is written before `pack` is created, and that the
dataset is sealed is written before any pod that trains is. A Job that is gone before its end was
recorded is simply made again: a rerun makes only what is missing on the volume.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import LongCount
from imagenet_operator.api.status import Clock, DatasetStatus, ImageCounts
from imagenet_operator.manifests import dataset, protection, volumes
from imagenet_operator.reconcile.draft import Draft
from imagenet_operator.reconcile.policies import clock, suspend
from imagenet_operator.reconcile.types import Manifest, PreparationJob

_WHAT = {
    dataset.INDEX: ("Indexing", "listing the images of the source"),
    dataset.PACK: ("Packing", "writing the shards"),
    dataset.SEAL: ("Sealing", "verifying the shards"),
}
"""The reason and message of DatasetReady while a step is under way."""


class SealResult(Model):
    """What seal leaves as its termination message."""

    images: ImageCounts
    """Images in the dataset, those that were skipped not counted."""

    skipped: LongCount
    """Damaged images that were left out."""


def prepare(draft: Draft) -> None:
    """Bring the dataset one step nearer to being ready."""
    suspended = draft.job.spec.run_policy.suspend
    former = draft.status.preparation or Clock()
    keep_time = clock.stop if suspended else clock.run
    draft.update(preparation=keep_time(former, draft.now))
    draft.patch(suspend.patches(draft.observed.jobs.values(), suspended))
    if _have_claims(draft):
        _take_the_next_step(draft)
    if not draft.holds("DatasetReady") and not draft.holds("Failed"):
        _mind_the_deadline(draft)


def _have_claims(draft: Draft) -> bool:
    """Create the claims that are missing; return whether pods may refer to all of them.

    A volume that is not bound yet is no reason to wait: many are bound by their first pod.
    """
    seen = draft.observed.claims
    wanted = volumes.claims(draft.job)
    missing = [item for item in wanted if item["metadata"]["name"] not in seen]
    leaving = [claim.name for claim in seen.values() if claim.terminating]
    if leaving:
        message = f"PersistentVolumeClaim {', '.join(leaving)} is being deleted"
        draft.state("DatasetReady", False, "ClaimTerminating", message)
        draft.look_again(draft.now + draft.settings.patience)
        return False
    if missing and draft.job.spec.run_policy.suspend:
        # What was prepared before would be ready at once, and its claims are looked at only here.
        return not draft.is_prepared
    return not missing or draft.create_or_wait("DatasetReady", missing)


def _take_the_next_step(draft: Draft) -> None:
    if draft.is_prepared:
        _ready(draft, "Prepared", "the dataset was prepared before")
        return
    jobs = draft.observed.jobs
    index, pack, seal = (jobs.get(role) for role in (dataset.INDEX, dataset.PACK, dataset.SEAL))
    found = draft.status.dataset
    settings = draft.settings.manifests
    if found is None:
        if index is not None and index.complete:
            _record_index(draft, index)
        else:
            _run(draft, dataset.INDEX, index, lambda: dataset.index_job(draft.job, settings))
    elif found.sealed:
        _ready(draft, "Reused", "it was sealed before")
    elif seal is not None and seal.complete:
        draft.update(dataset=_sealed(found, seal))
        _ready(draft, "Sealed", "all shards are verified")
    elif seal is not None or (pack is not None and pack.complete):
        _run(draft, dataset.SEAL, seal, lambda: dataset.seal_job(draft.job, found, settings))
    else:
        _run(draft, dataset.PACK, pack, lambda: dataset.pack_job(draft.job, found, settings))


def _run(
    draft: Draft, role: str, job: PreparationJob | None, build: Callable[[], Manifest]
) -> None:
    """See to it that the Job of a step runs; one that failed fails everything."""
    if job is not None and job.failure is not None and not job.terminating:
        draft.state("DatasetReady", False, "PreparationFailed", f"{role}: {job.failure}")
        draft.fail("PreparationFailed", f"{role}: {job.failure}")
    elif draft.job.spec.run_policy.suspend:
        draft.state("DatasetReady", False, "Suspended", "the job is suspended")
    elif job is not None and job.stranded and not job.terminating:
        draft.delete([job.reference])
        draft.warn("NodeLost", f"{role}: a pod is on a node that cannot be reached; starting again")
    else:
        made = [] if job is not None else [build()]
        if draft.create_or_wait("DatasetReady", [*_missing_protection(draft), *made]):
            draft.state("DatasetReady", False, *_WHAT[role])


def _missing_protection(draft: Draft) -> list[Manifest]:
    """Return what has to stand around the pods of a step, as far as it is not there."""
    present = {item.kind for item in draft.observed.protection}
    wanted = protection.of_preparation(draft.job, draft.settings.manifests)
    return [item for item in wanted if item["kind"] not in present]


def _record_index(draft: Draft, index: PreparationJob) -> None:
    """Take over what index found; its Job is run again if the pod that knew is gone."""
    if index.message is None:
        if not index.terminating:
            draft.delete([index.reference])
        return
    try:
        found = DatasetStatus.model_validate_json(index.message)
    except ValidationError:
        message = f"index left no result that can be read: {index.message[:200]!r}"
        draft.state("DatasetReady", False, "PreparationFailed", message)
        draft.fail("PreparationFailed", message)
        return
    draft.update(dataset=found)
    draft.look_at_once()


def _sealed(found: DatasetStatus, seal: PreparationJob) -> DatasetStatus:
    """Mark the dataset as complete, with the counts of seal if its pod is still there to tell."""
    try:
        result = SealResult.model_validate_json(seal.message or "")
    except ValidationError:
        return found.model_copy(update={"sealed": True})
    counts = {"images": result.images, "skipped_images": result.skipped}
    return found.model_copy(update={"sealed": True, **counts})


def _ready(draft: Draft, reason: str, how: str) -> None:
    draft.state("DatasetReady", True, reason, how)
    draft.update(preparation=clock.stop(draft.status.preparation or Clock(), draft.now))
    found = draft.status.dataset
    draft.tell("DatasetReady", how if found is None else f"{_summary(found)}: {how}")
    if found is not None and found.skipped_images:
        draft.warn(
            "ImagesSkipped",
            f"{found.skipped_images:,} damaged images were left out; skipped.jsonl names them",
        )
    if not draft.is_prepared:
        draft.look_at_once()


def _summary(found: DatasetStatus) -> str:
    images = found.images
    dropped = f" ({found.dropped_classes} with too few images)" if found.dropped_classes else ""
    return (
        f"dataset {found.key[:12]} with {images.train:,} + {images.validation:,} images "
        f"in {found.classes} classes{dropped}"
    )


def _mind_the_deadline(draft: Draft) -> None:
    seconds = draft.job.spec.run_policy.preparation_deadline_seconds
    spent = draft.status.preparation or Clock()
    if clock.is_over(spent, seconds, draft.now):
        draft.fail("PreparationDeadlineExceeded", f"preparing the dataset took over {seconds} s")
    else:
        draft.look_again(clock.ends_at(spent, seconds))

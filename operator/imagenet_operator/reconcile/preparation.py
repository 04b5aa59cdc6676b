"""The Jobs of a dataset: fetch and index the source, pack its shards, and seal them.

A step starts only after the step before it is recorded in the status, because Jobs and their pods
may vanish at any time. The result of `index` is recorded before `pack` is created. The seal is
recorded before any pod that trains is created. A Job that vanished before its end was recorded is
created again; a second run makes only the files that are missing on the volume.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol, TypeVar

from pydantic import ValidationError

from imagenet_operator.manifests import dataset, protection, volumes
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import (
    deadlines,
    job_status,
    reading,
    shared_dataset,
    suspend,
    time_account,
    version_skew,
    waiting,
)
from imagenet_operator.reconcile.types import HeldPod, Manifest, Patch, PreparationJob
from imagenet_spec import stored
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.dataset_status import DatasetStatus, Findings, ImageCounts
from imagenet_spec.resource.fields import LongCount, Speed, Text
from imagenet_spec.resource.status import Clock

StepResult = TypeVar("StepResult", bound=Model)

_SEALING = ("Sealing", "verifying the shards")
"""The reason and message of DatasetReady while the seal Job runs."""

_VERIFYING = ("Verifying", "reading every byte of the shards and comparing the checksums")
"""Those of the seal Job for a dataset that was sealed before."""


class StepBuilder(Protocol):
    """What builds the Job of a step."""

    def __call__(self, job: ImageNetJob, *, settings: Settings) -> Manifest: ...


class IndexResult(DatasetStatus):
    """The termination message of index: the dataset, of which nothing may be missing."""

    key: Text
    """As in the status."""

    classes: LongCount
    """As in the status."""

    images: ImageCounts
    """As in the status."""

    shards: LongCount
    """As in the status."""


class PackResult(Model):
    """The termination message of pack."""

    decoded_images_per_second: Speed
    """As in the status."""


class SealResult(Model):
    """The termination message of seal."""

    images: ImageCounts
    """Images in the dataset, those that were skipped not counted."""

    skipped: LongCount
    """Damaged images that were left out."""

    findings: Findings | None = None
    """As in the status."""


def prepare(context: ReconcileContext) -> None:
    """Take the next step of the preparation."""
    suspended = context.job.spec.run_policy.suspend
    former = context.status.preparation or Clock()
    # Until the operator is upgraded, only what exists runs; in a queue, nothing does.
    jobs = context.observed.jobs.values()
    is_held = context.unsupported or any(job.held_by_others for job in jobs)
    is_stopped = suspended or (is_held and not any(job.active for job in jobs))
    set_clock = deadlines.stop_clock if is_stopped else deadlines.start_clock
    context.update(preparation=set_clock(former, context.now))
    if suspended or not context.unsupported:
        context.patch(suspend.patches(jobs, suspended, was_suspended=context.was_suspended))
    if suspended:
        context.delete(suspend.withdrawn(jobs, was_suspended=context.was_suspended))
    if context.unsupported or _have_claims(context):
        _run_next_step(context)
    if context.holds("DatasetReady") or context.holds("Failed"):
        return
    seconds = context.job.spec.run_policy.preparation_deadline_seconds
    spent = context.status.preparation or Clock()
    if deadlines.is_over(spent, seconds, context.now):
        message = f"preparing the dataset took over {seconds} s"
        found = job_status.find(context.status.conditions, "DatasetReady")
        if found is not None and found.reason == shared_dataset.REASON:
            message = f"{message}; {found.message}"
        context.fail("PreparationDeadlineExceeded", message)
    else:
        context.requeue_at(deadlines.ends_at(spent, seconds))


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
    is_new = context.job.status.preparation is None
    differing = waiting.differing_claims(context.job, seen)
    if is_new:
        for _, message in differing:
            context.record_warning("ClaimDiffers", message)
    # Nothing is on a claim without a volume, and perhaps it never gets one.
    if unused := [message for claim, message in differing if claim.pending]:
        message = f"{'; '.join(unused)}; delete the claim, and it is created again"
        context.set_condition("DatasetReady", False, "ClaimDiffers", message)
        context.requeue_later()
        return False
    if missing and context.job.spec.run_policy.suspend:
        # A dataset that was prepared before is ready at once, and claims are created only here.
        return not context.is_ready_at_once
    return not missing or context.create_or_wait("DatasetReady", missing)


def _run_next_step(context: ReconcileContext) -> None:
    jobs = context.observed.jobs
    index, pack, seal = (jobs.get(role) for role in (dataset.INDEX, dataset.PACK, dataset.SEAL))
    found = context.status.listed
    has_packed = pack is not None and pack.complete
    if has_packed and found is not None and found.decoded_images_per_second is None:
        measured = _read_result(PackResult, pack)
        if measured is not None:
            speed = round(measured.decoded_images_per_second, 1)
            found = found.model_copy(update={"decoded_images_per_second": speed})
            context.update(dataset=found)
    if context.is_prepared:
        _verify(context, "Prepared", "the dataset was prepared before", dataset.verify_job)
        return
    if found is None:
        if index is not None and index.complete:
            _record_index(context, index)
        elif index is not None or _is_fetched(context):
            former = context.status.dataset or DatasetStatus()
            sample = None if index is None else context.sample
            if estimates := reading.estimates(context.job, sample):
                former = former.model_copy(update=estimates)
                context.update(dataset=former)
            what = ("Indexing", reading.index_message(former))
            _run(context, dataset.INDEX, what, dataset.index_job)
    elif found.sealed:
        _verify(context, "Reused", "it was sealed before", partial(dataset.seal_job, dataset=found))
    elif seal is not None and seal.complete:
        sealed: dict[str, object] = {"sealed": True}
        if (counts := _read_result(SealResult, seal)) is not None:
            sealed |= {"images": counts.images, "skipped_images": counts.skipped}
            sealed |= {"findings": counts.findings}
        context.update(dataset=found.model_copy(update=sealed))
        _ready(context, "Sealed", "all shards are verified")
    elif (
        seal is not None
        or has_packed
        or shared_dataset.is_sealed(context.job, context.observed.sharers)
    ):
        _run(context, dataset.SEAL, _SEALING, partial(dataset.seal_job, dataset=found))
    elif pack is not None or not _waits_for_another(context):
        what = ("Packing", reading.pack_message(found))
        _run(context, dataset.PACK, what, partial(dataset.pack_job, dataset=found))


def _is_fetched(context: ReconcileContext) -> bool:
    """Return whether the cache has the files of the source, or none is asked for.

    The Job that stores them is created if it is missing; a second one finds what is stored.
    """
    if not context.job.spec.dataset.source.fields.is_fetched:
        return True
    job = context.observed.jobs.get(dataset.FETCH)
    former = context.status.dataset or DatasetStatus()
    progress = reading.fetch_progress(former.fetch, job, context.sample)
    if progress is not None:
        context.update(dataset=former.model_copy(update={"fetch": progress}))
    if job is not None and job.complete:
        return True
    what = (time_account.FETCHING, reading.fetch_message(progress))
    _run(context, dataset.FETCH, what, dataset.fetch_job)
    return False


def _record_index(context: ReconcileContext, index: PreparationJob) -> None:
    """Record the result of index; its Job runs again if the pod with the result vanished."""
    if index.message is None:
        if not index.terminating and not context.unsupported:
            context.delete([index.reference])
        return
    try:
        # A newer image may report more.
        found = stored.read_known(IndexResult, index.message)
    except ValidationError:
        message = f"index wrote no readable result: {index.message[:200]!r}"
        context.set_condition("DatasetReady", False, "PreparationFailed", message)
        context.fail("PreparationFailed", message)
        return
    former = context.status.dataset or DatasetStatus()
    reads = {
        "fetch": former.fetch,
        "listing": found.listing or former.listing,
        "packing": found.packing and reading.by_all_pods(context.job, found.packing),
    }
    context.update(dataset=DatasetStatus.model_validate({**dict(found), **reads}))
    context.requeue_now()


def _waits_for_another(context: ReconcileContext) -> bool:
    """Return whether another job prepares the same dataset before this one; then say so."""
    if context.job.spec.run_policy.suspend or context.unsupported:
        return False
    other = shared_dataset.first(context.job, context.observed.sharers)
    if other is None:
        return False
    message = shared_dataset.message(other)
    if context.set_condition("DatasetReady", False, shared_dataset.REASON, message):
        context.record_event(shared_dataset.REASON, message)
    context.requeue_later()
    return True


def _read_result(kind: type[StepResult], job: PreparationJob | None) -> StepResult | None:
    """Return the result of a step, if a pod of it still exists and wrote one."""
    try:
        return stored.read_known(kind, (job and job.message) or "")
    except ValidationError:
        return None


def _verify(context: ReconcileContext, reason: str, how: str, build: StepBuilder) -> None:
    seal = context.observed.jobs.get(dataset.SEAL)
    if not context.verifies:
        _ready(context, reason, how)
    elif seal is not None and seal.complete:
        _ready(context, reason, f"{how}, and all checksums are right")
    else:
        _run(context, dataset.SEAL, _VERIFYING, build)


def _run(context: ReconcileContext, role: str, what: tuple[str, str], build: StepBuilder) -> None:
    """Create the Job of a step if it is missing; fail the job if the Job failed.

    While it runs, DatasetReady has the reason and the message of `what`.
    """
    job = context.observed.jobs.get(role)
    if job is not None and job.failure is not None and not job.terminating:
        context.set_condition("DatasetReady", False, "PreparationFailed", f"{role}: {job.failure}")
        context.fail("PreparationFailed", f"{role}: {job.failure}")
    elif context.job.spec.run_policy.suspend:
        context.set_condition("DatasetReady", False, "Suspended", "the job is suspended")
    elif context.unsupported:
        if job is None:
            context.set_condition(
                "DatasetReady", False, *version_skew.why_unsupported(context.unsupported)
            )
    elif job is not None and job.stranded and not job.terminating:
        context.delete([job.reference])
        context.record_warning(*node_lost(role))
    else:
        settings = context.settings.manifests
        made = [] if job is not None else [build(context.job, settings=settings)]
        if context.create_or_wait("DatasetReady", [*missing_protection(context), *made]):
            context.set_condition("DatasetReady", False, *what)
            if made:
                context.warn_of_misspelled_fields()


def _ready(context: ReconcileContext, reason: str, how: str) -> None:
    context.set_condition("DatasetReady", True, reason, how)
    spent = context.status.preparation or Clock()
    context.update(preparation=deadlines.stop_clock(spent, context.now))
    found = context.status.listed
    left_out = f"; left out: {found.left_out}" if found is not None and found.left_out else ""
    message = how
    if found is not None:
        message = (
            f"dataset {found.key[:12]} with {found.images.train:,} + "
            f"{found.images.validation:,} images in {found.classes} classes: {how}{left_out}"
        )
    context.record_event("DatasetReady", message)
    if found is not None and found.skipped_images:
        context.record_warning(
            "ImagesSkipped",
            f"{found.skipped_images:,} damaged images were left out; skipped.jsonl names them",
        )
    if found is not None and found.findings:
        context.record_warning("DatasetFindings", "; ".join(found.findings))
    if not context.is_ready_at_once:
        context.requeue_now()


def missing_protection(context: ReconcileContext) -> list[Manifest]:
    """Return the objects that protect the pods of a step and do not exist."""
    present = {item.kind for item in context.observed.protection}
    wanted = protection.of_preparation(context.job, context.settings.manifests)
    return [item for item in wanted if item["kind"] not in present]


def node_lost(role: str) -> tuple[str, str]:
    """Return the reason and message of a Job that starts again, without its pod on a lost node."""
    return "NodeLost", f"{role}: a pod is on a node that cannot be reached; starting again"


def release_held(context: ReconcileContext) -> None:
    """Go on although containers beside a program, such as injected sidecars, do not end with it.

    The Job controller waits for the whole pod. So a Job of which all programs have succeeded is
    deleted once its result is recorded, and a pod whose program failed is deleted so that the Job
    counts the failure. Each other pod takes the place of a next one, so more may be active.
    """
    for role, job in context.observed.jobs.items():
        if not job.held or job.terminating or job.suspended:
            continue
        failed = [pod for pod in job.held if not pod.succeeded]
        if job.complete:
            if _is_over(context, role):
                context.delete([job.reference])
                context.record_warning("ContainerStillRuns", _still_runs(job.held[0]))
        elif failed:
            context.delete(pod.reference for pod in failed)
            context.record_warning("ContainerStillRuns", _still_runs(failed[0]))
        elif role == dataset.PACK and context.status.listed is not None:
            built = dataset.pack_job(context.job, context.status.listed, context.settings.manifests)
            parallelism = built["spec"]["parallelism"] + len(job.held)
            if job.parallelism < (most := min(parallelism, job.completions)):
                change = {"spec": {"parallelism": most}}
                context.patch([Patch("Job", job.name, job.uid, change)])


def _still_runs(pod: HeldPod) -> str:
    return (
        f"{pod.name}: the program has ended, but the container {', '.join(pod.containers)} still "
        "runs; going on without it. Make it a native sidecar (an init container with restartPolicy "
        "Always), or do not inject it into the pods of the preparation"
    )


def _is_over(context: ReconcileContext, role: str) -> bool:
    """Whether the recorded status needs a Job no more that has succeeded."""
    recorded = context.job.status
    is_ready = job_status.holds(recorded.conditions, "DatasetReady")
    if role == dataset.PUBLISH:
        return job_status.holds(recorded.conditions, "DatasetPublished")
    if role in (dataset.FETCH, dataset.INDEX):
        return is_ready or recorded.listed is not None
    return is_ready or (role == dataset.PACK and dataset.SEAL in context.observed.jobs)

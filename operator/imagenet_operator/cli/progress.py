"""The progress of a job as bars, computed from a reconcile's view. `display` draws them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from imagenet_operator.api import elastic_workers
from imagenet_operator.api.dataset_status import FetchStatus
from imagenet_operator.api.figures import FIGURES, SPEED
from imagenet_operator.api.status import Status
from imagenet_operator.clusters.local.runner import View
from imagenet_operator.manifests.dataset import FETCH, INDEX, PACK, SEAL
from imagenet_operator.reconcile.policies import data_wait, job_status, reading
from imagenet_operator.reconcile.policies.job_status import holds
from imagenet_operator.reconcile.preparation_sample import Preparation
from imagenet_operator.reconcile.sample import Sample

TRAIN = "train"
_GIB = 1 << 30
_LONG_EPOCH = 3600
"""Seconds of an epoch that are worth a word."""


@dataclass(frozen=True)
class Bar:
    """One stage of a job.

    Attributes:
        name: fetch, index, pack, seal or train.
        done: How many of `total`, in `unit`.
        total: None if it is not known yet.
        unit: What is counted.
        note: The state in words.
        speed: Images per second, if the members report it.
        is_finished: Whether this stage is complete.
    """

    name: str
    done: int
    total: int | None
    unit: str
    note: str = ""
    speed: float | None = None
    is_finished: bool = False


def bars(view: View) -> list[Bar]:
    """Return the stages that have begun, in order."""
    status = view.job.status
    ready = holds(status.conditions, "DatasetReady")
    found = [
        bar
        for bar in (_fetch(view), _index(view, ready), _pack(view, ready), _seal(view, ready))
        if bar is not None
    ]
    if status.training is not None:
        found.append(_train(view, status))
    return found


class SteadyBars:
    """The stages over the views of one run; counters of the preparation never run backwards.

    What a pod has done is not counted between its end and the count of its shard.
    """

    def __init__(self) -> None:
        self._most: dict[tuple[str, str], int] = {}

    def of(self, view: View) -> list[Bar]:
        """Return the stages that have begun, in order."""
        found = bars(view)
        for number, bar in enumerate(found):
            if bar.name != TRAIN:
                key = bar.name, bar.unit
                done = self._most[key] = max(bar.done, self._most.get(key, 0))
                # A total that is exceeded was an estimate.
                total = bar.total if bar.total is None else max(bar.total, done)
                found[number] = replace(bar, done=done, total=total)
        return found


def _heard(sample: Sample | None, role: str) -> Preparation:
    said = sample.preparation if sample is not None else None
    return (said or {}).get(role, Preparation())


def _fetch(view: View) -> Bar | None:
    job, dataset = view.observed.jobs.get(FETCH), view.job.status.dataset
    if job is None:
        return None
    former = None if dataset is None else dataset.fetch
    found = reading.fetch_progress(former, job, view.sample) or FetchStatus()
    if reading.is_asking(found):
        asked, files = found.asked_files or 0, found.files or 0
        note = f"asked the server for the versions of {asked:,} of {files:,} files"
        return Bar(FETCH, asked, files, "files", note)
    done, total = found.bytes, found.total_bytes
    note = f"{done / _GIB:,.2f} GiB" + (f" of {total / _GIB:,.2f}" if total else "")
    return Bar(FETCH, done, total, "bytes", note, is_finished=job.complete)


def _index(view: View, ready: bool) -> Bar | None:
    job, found = view.observed.jobs.get(INDEX), view.job.status.listed
    if job is None or (ready and found is not None and job.complete is False):
        return None
    if found is not None:
        images = found.images.train + found.images.validation
        dropped = f", {found.dropped_classes} dropped" if found.dropped_classes else ""
        note = f"{found.classes} classes{dropped}"
        return Bar(INDEX, images, images, "images", note, is_finished=True)
    heard, dataset = _heard(view.sample, INDEX), view.job.status.dataset
    note = "" if dataset is None else reading.index_words(dataset)
    return Bar(INDEX, heard.images, heard.planned or None, "images", note)


def _pack(view: View, ready: bool) -> Bar | None:
    job, found = view.observed.jobs.get(PACK), view.job.status.listed
    if job is None or found is None:
        return None
    images = found.images.train + found.images.validation
    shards = f"{job.succeeded}/{found.shards} shards"
    # spec.dataset.preprocessing.shards counts those of training alone.
    if found.shards > view.job.spec.dataset.preprocessing.shards:
        shards += " with validation"
    if job.complete or ready:
        return Bar(PACK, images, images, "images", shards, is_finished=True)
    complete = images * job.succeeded // max(found.shards, 1)
    done = min(images, complete + _heard(view.sample, PACK).images)
    takes = reading.pack_words(found)
    return Bar(PACK, done, images, "images", f"{shards}, {takes}" if takes else shards)


def _seal(view: View, ready: bool) -> Bar | None:
    job = view.observed.jobs.get(SEAL)
    if job is None:
        return None
    finished = job.complete or ready
    note = "every shard is verified" if finished else "verifying every shard"
    return Bar(SEAL, int(finished), 1, "dataset", note, is_finished=finished)


def _train(view: View, status: Status) -> Bar:
    training, sample = status.training, view.sample
    assert training is not None
    planned = view.job.spec.training.epochs
    finished = holds(status.conditions, "Succeeded")
    restarted = [f"attempt {training.attempt}"] if training.attempt else []
    most = elastic_workers.worker_counts(view.job.spec.training)[-1]
    if training.workers is not None and training.workers < most:
        restarted.append(f"{training.workers} of {most} workers")
    if finished:
        note = ", ".join(_labelled(sample))
        return Bar(TRAIN, planned, planned, "epochs", note, is_finished=True)
    if sample is None or sample.attempt != training.attempt or sample.epoch is None:
        return Bar(TRAIN, 0, planned, "epochs", ", ".join(["starting", *restarted]))
    batches = sample.batches_per_epoch or 1
    done = min(sample.epoch * batches + (sample.batch or 0), planned * batches)
    epoch, batch = min(sample.epoch + 1, planned), sample.batch or 0
    # The most important part comes first: a narrow terminal cuts the end.
    parts = [f"epoch {epoch}/{planned}", *_labelled(sample), f"batch {batch}/{batches}"]
    speed = sample.figures.get(SPEED)
    if speed and (seconds := batches * view.job.spec.training.batch_size / speed) >= _LONG_EPOCH:
        where = "" if view.job.spec.training.workers.gpus else " on CPUs"
        parts.append(f"an epoch takes {job_status.eta(round(seconds))}{where}")
    if training.data_wait is not None and data_wait.is_too_long(training.data_wait):
        parts.append(f"{100 * training.data_wait.share:.0f} % waiting for data")
    text = ", ".join([*parts, *restarted])
    return Bar(TRAIN, done, planned * batches, "batches", text, speed)


def _labelled(sample: Sample | None) -> list[str]:
    """Return the known figures that have a label."""
    values = {} if sample is None else sample.figures
    return [
        f"{item.label} {values[item.field]:{item.number.form}}"
        for item in FIGURES
        if item.label and item.field in values
    ]

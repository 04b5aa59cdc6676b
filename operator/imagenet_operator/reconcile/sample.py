"""What the members say of themselves, read from their metrics: the latest sample of a job.

A sampler beside the loop fetches the Prometheus texts and calls `parse_sample`; a pass takes the
sample as an input and works without one. The names of the metrics stand here and nowhere else on
this side (a test compares them with those that the workloads export).

Job figures are defined as in docs/telemetry.md: images per second is the sum over the workers;
epoch, batch, loss and accuracy come from the member that reports rank 0, because ranks are not
pod indices.

A worker that writes a checkpoint may not answer in time. A sum without it would be of another job,
so what is of all workers moves only when all that were asked have answered, and rank 0's figures
stay while it may be the one that is late. Where one is silent for longer than a checkpoint takes,
the job has no speed. Progress waits for nobody: one member that gets on is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf, isfinite
from types import MappingProxyType
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from imagenet_operator.api.fields import COUNT_MAXIMUM
from imagenet_operator.manifests import labels

PREFIX = "imagenet_"
TRAIN_IMAGES = "imagenet_train_images_total"
TRAIN_SPEED = "imagenet_train_images_per_second"
TRAIN_STEP_SUM = "imagenet_train_step_seconds_sum"
TRAIN_DATA_WAIT_SUM = "imagenet_train_data_wait_seconds_sum"
TRAIN_EPOCH = "imagenet_train_epoch"
TRAIN_EPOCHS = "imagenet_train_epochs"
TRAIN_BATCH = "imagenet_train_batch"
TRAIN_BATCHES = "imagenet_train_batches_per_epoch"
TRAIN_LOSS = "imagenet_train_loss"
TRAIN_ACCURACY = "imagenet_train_top1"
TRAIN_VALIDATION_ACCURACY = "imagenet_train_validation_top1"
TRAIN_RANK = "imagenet_train_rank"
PREPARE_IMAGES = "imagenet_prepare_images_total"
PREPARE_PLANNED = "imagenet_prepare_images_planned"
PREPARE_BYTES = "imagenet_prepare_bytes_total"
PREPARE_SKIPPED = "imagenet_prepare_skipped_images_total"

ROLE_LABEL = "role"
ATTEMPT_LABEL = "attempt"

LONGEST_CHECKPOINT: Final = timedelta(minutes=5)
"""For how long a speed is told that not all workers have told again."""

_WORKER: Final = "worker"
_MOST_DIGITS: Final = 10
"""Of the number of an attempt: as many as 2³¹ has."""


@dataclass(frozen=True)
class Asked:
    """What a member is that is asked for its metrics, whether it answers or not.

    Attributes:
        role: In its job.
        attempt: The one that it belongs to; None for those of the preparation.
    """

    role: str
    attempt: int | None

    @classmethod
    def of_labels(cls, found: Mapping[str, str]) -> Asked:
        """Return what a pod's labels say that it is."""
        return cls(found.get(labels.JOB_ROLE, ""), _attempt(found.get(labels.ATTEMPT, "")))


NOBODY: Final[Mapping[str, Asked]] = MappingProxyType({})
"""To be asked: then whoever answered is all that there are."""


@dataclass(frozen=True)
class Preparation:
    """How far one role of the preparation is, summed over its pods that were heard.

    Attributes:
        images: Done.
        planned: To be done by these pods, as far as they know.
        bytes: Written.
        skipped: Damaged images left out.
    """

    images: int = 0
    planned: int = 0
    bytes: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Sample:
    """One look at the metrics of a job's members. None means that nobody said.

    Attributes:
        taken_at: When the members were asked; what follows may have been heard before, if nobody
            answered now.
        asked: The newest attempt whose members were asked; None if only others were.
        silent_since: Since when none of them has answered; None if one did.
        attempt: The newest attempt that was heard; figures of training are of it alone.
        epoch: The epoch that rank 0 works on, from 0.
        epochs: How many are planned.
        batch: Batches done in this epoch.
        batches_per_epoch: On every worker.
        whole_at: When all workers last answered.
        images_per_second: Sum over the workers, of that time; None when it is too long ago.
        loss: Training loss of rank 0.
        accuracy: Training top-1 of rank 0, 0 to 1.
        validation_accuracy: Top-1 of the last evaluation, 0 to 1.
        data_wait_share: Part of the workers' step time that they waited for data, 0 to 1, between
            the last two times that all of them answered; None when it is too long ago.
        progressed_at: When a sample of this attempt last showed progress (of any member).
        preparation: By role: index, pack, seal.
    """

    taken_at: datetime
    asked: int | None = None
    silent_since: datetime | None = None
    attempt: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    batch: int | None = None
    batches_per_epoch: int | None = None
    whole_at: datetime | None = None
    images_per_second: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    validation_accuracy: float | None = None
    data_wait_share: float | None = None
    progressed_at: datetime | None = None
    preparation: Mapping[str, Preparation] | None = None
    totals: Totals | None = None


@dataclass(frozen=True)
class Totals:
    """The running totals of a sample, which the next one is compared with.

    Attributes:
        images: Pod name → the most images it ever told of; it stays while a pod is not heard, so
            that hearing it again is not mistaken for progress.
        step_seconds: Sum over the workers, of the last time that all of them answered.
        data_wait_seconds: Likewise.
    """

    images: Mapping[str, float] = field(default_factory=dict)
    step_seconds: float = 0.0
    data_wait_seconds: float = 0.0


@dataclass(frozen=True)
class _Member:
    """One pod's series: name → value, with the labels that all of them carry."""

    pod: str
    role: str
    attempt: int | None
    values: Mapping[str, float]


def parse_sample(
    texts: Mapping[str, str],
    previous: Sample | None,
    now: datetime,
    asked: Mapping[str, Asked] = NOBODY,
) -> Sample:
    """Build the sample of a job from what its members exported.

    A text that cannot be parsed (a pod that was killed while it answered) counts as not heard.
    While nothing is heard, what was heard before stays.

    Args:
        texts: Pod name → body of its ``/metrics``.
        previous: The sample before this one, for shares, for progress and for what stays.
        now: When the texts were fetched.
        asked: Pod name → what it is, of all running pods that were asked for them.
    """
    found = (_member(pod, text) for pod, text in sorted(texts.items()))
    heard = [member for member in found if member is not None]
    preparation = _preparation_by_role(heard)
    attempts = _attempts(heard)
    if not attempts and not preparation and previous is not None:
        sample = replace(previous, taken_at=now)
    else:
        sample = Sample(taken_at=now, preparation=preparation or None)
    if attempts:
        sample = _with_training(sample, heard, max(attempts), previous, asked)
    newest = max(_attempts(asked.values()), default=None)
    is_silent = newest is not None and newest not in attempts
    since = _silent_since(previous, newest, now) if is_silent else None
    return replace(_without_old_sums(sample), asked=newest, silent_since=since)


def _attempts(members: Iterable[Asked | _Member]) -> set[int]:
    return {member.attempt for member in members if member.attempt is not None}


def _silent_since(previous: Sample | None, asked: int | None, now: datetime) -> datetime:
    """When the silence of an attempt that is silent now began."""
    if previous is None or previous.asked != asked or previous.silent_since is None:
        return now
    return previous.silent_since


def _with_training(
    bare: Sample,
    heard: list[_Member],
    attempt: int,
    previous: Sample | None,
    asked: Mapping[str, Asked],
) -> Sample:
    """Return a sample with the figures of an attempt."""
    former = Sample(bare.taken_at)
    if previous is not None and previous.attempt == attempt:
        former = previous
    workers = [item for item in heard if item.attempt == attempt and item.role == _WORKER]
    wanted = {pod for pod, item in asked.items() if item == Asked(_WORKER, attempt)}
    is_whole = wanted <= {item.pod for item in workers}
    first = next((item.values for item in workers if item.values.get(TRAIN_RANK) == 0), None)
    sample = replace(former, taken_at=bare.taken_at, preparation=bare.preparation, attempt=attempt)
    if first is not None or is_whole:
        sample = _with_rank_0(sample, first or {})
    if is_whole:
        sample = _with_sums(sample, workers)
    totals = sample.totals or Totals()
    sample = replace(sample, totals=replace(totals, images=_images(workers, former.totals)))
    return replace(sample, progressed_at=_progressed_at(sample, former))


def _with_rank_0(former: Sample, said: Mapping[str, float]) -> Sample:
    """Return a sample with what the worker of rank 0 says."""
    return replace(
        former,
        epoch=_whole(said.get(TRAIN_EPOCH)),
        epochs=_whole(said.get(TRAIN_EPOCHS)),
        batch=_whole(said.get(TRAIN_BATCH)),
        batches_per_epoch=_whole(said.get(TRAIN_BATCHES)),
        loss=said.get(TRAIN_LOSS),
        accuracy=said.get(TRAIN_ACCURACY),
        validation_accuracy=said.get(TRAIN_VALIDATION_ACCURACY),
    )


def _with_sums(former: Sample, workers: list[_Member]) -> Sample:
    """Return a sample with what all workers together say."""
    totals = Totals(
        step_seconds=_sum(workers, TRAIN_STEP_SUM) or 0.0,
        data_wait_seconds=_sum(workers, TRAIN_DATA_WAIT_SUM) or 0.0,
    )
    return replace(
        former,
        whole_at=former.taken_at,
        images_per_second=_speed(workers),
        data_wait_share=_data_wait_share(totals, former),
        totals=totals,
    )


def _without_old_sums(sample: Sample) -> Sample:
    """Return a sample without what is of all workers, if that was told too long ago."""
    if sample.whole_at is None or sample.taken_at - sample.whole_at <= LONGEST_CHECKPOINT:
        return sample
    return replace(sample, images_per_second=None, data_wait_share=None)


def _images(workers: list[_Member], former: Totals | None) -> dict[str, float]:
    """Return the most images that each worker ever told of."""
    before = former.images if former is not None else {}
    images = {member.pod: member.values.get(TRAIN_IMAGES, 0.0) for member in workers}
    return {
        pod: max(images.get(pod, 0.0), before.get(pod, 0.0))
        for pod in images.keys() | before.keys()
    }


def _member(pod: str, text: str) -> _Member | None:
    """Read one pod's text; a NaN or infinity, which a gauge may hold, is nothing said."""
    values: dict[str, float] = {}
    role, attempt = "", ""
    try:
        for family in text_string_to_metric_families(text):
            for series in family.samples:
                role = series.labels.get(ROLE_LABEL, role)
                attempt = series.labels.get(ATTEMPT_LABEL, attempt)
                if series.name.startswith(PREFIX) and isfinite(series.value):
                    values[series.name] = values.get(series.name, 0.0) + float(series.value)
    except (ValueError, KeyError, IndexError):
        return None
    return _Member(pod, role, _attempt(attempt), values)


def _attempt(text: str) -> int | None:
    """Return the number of an attempt; None for what is none, as any image may say."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _sum(members: list[_Member], name: str) -> float | None:
    values = [member.values[name] for member in members if name in member.values]
    return sum(values) if values else None


def _speed(workers: list[_Member]) -> float | None:
    """Return the workers' speed together; None for what is none, as in `_whole`."""
    value = _sum(workers, TRAIN_SPEED)
    return None if value is None or not 0 <= value < inf else value


def _whole(value: float | None) -> int | None:
    """Return a count; None for what is none, as any image may say, and no status could hold."""
    return None if value is None or not 0 <= value <= COUNT_MAXIMUM else int(value)


def _preparation_by_role(heard: list[_Member]) -> dict[str, Preparation]:
    return {
        role: _preparation([member for member in heard if member.role == role])
        for role in ("index", "pack", "seal")
        if any(member.role == role for member in heard)
    }


def _preparation(members: list[_Member]) -> Preparation:
    return Preparation(
        images=int(_sum(members, PREPARE_IMAGES) or 0),
        planned=int(_sum(members, PREPARE_PLANNED) or 0),
        bytes=int(_sum(members, PREPARE_BYTES) or 0),
        skipped=int(_sum(members, PREPARE_SKIPPED) or 0),
    )


def _data_wait_share(totals: Totals, former: Sample) -> float | None:
    before = former.totals or Totals()
    step = totals.step_seconds - before.step_seconds
    wait = totals.data_wait_seconds - before.data_wait_seconds
    return former.data_wait_share if step <= 0 else min(1.0, max(0.0, wait / step))


def _progressed_at(sample: Sample, former: Sample) -> datetime:
    """When the attempt last moved: now, unless everything stands where the last sample stood."""
    if former.progressed_at is None or former.totals is None or sample.totals is None:
        return sample.taken_at
    before = former.totals.images
    moved = any(images > before.get(pod, 0.0) for pod, images in sample.totals.images.items()) or (
        sample.epoch is not None
        and former.epoch is not None
        and (sample.epoch, sample.batch) != (former.epoch, former.batch)
    )
    return sample.taken_at if moved else former.progressed_at

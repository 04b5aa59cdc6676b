"""What the members say of themselves, read from their metrics: the latest sample of a job.

A sampler beside the loop fetches the Prometheus texts and calls `parse_sample`; a pass takes the
sample as an input and works without one. The names of the metrics stand here and nowhere else on
this side (a test compares them with those that the workloads export).

Job figures are defined as in docs/telemetry.md: images per second is the sum over the workers;
epoch, batch, loss and accuracy come from the member that reports rank 0, because ranks are not
pod indices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf, isfinite

from prometheus_client.parser import text_string_to_metric_families

from imagenet_operator.api.fields import COUNT_MAXIMUM

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
        images_per_second: Sum over the workers.
        loss: Training loss of rank 0.
        accuracy: Training top-1 of rank 0, 0 to 1.
        validation_accuracy: Top-1 of the last evaluation, 0 to 1.
        data_wait_share: Part of the workers' step time since the last sample that they waited for
            data, 0 to 1.
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
        step_seconds: Sum over the workers.
        data_wait_seconds: Sum over the workers.
    """

    images: Mapping[str, float]
    step_seconds: float
    data_wait_seconds: float


@dataclass(frozen=True)
class _Member:
    """One pod's series: name → value, with the labels that all of them carry."""

    pod: str
    role: str
    attempt: int | None
    values: Mapping[str, float]


def parse_sample(
    texts: Mapping[str, str], previous: Sample | None, now: datetime, asked: int | None = None
) -> Sample:
    """Build the sample of a job from what its members exported.

    A text that cannot be parsed (a pod that was killed while it answered) counts as not heard.
    While nothing is heard, what was heard before stays.

    Args:
        texts: Pod name → body of its ``/metrics``.
        previous: The sample before this one, for shares and for progress.
        now: When the texts were fetched.
        asked: The newest attempt of those that were asked for them.
    """
    heard = [
        member
        for pod, text in sorted(texts.items())
        for member in [_member(pod, text)]
        if member is not None
    ]
    preparation = {
        role: _preparation([member for member in heard if member.role == role])
        for role in ("index", "pack", "seal")
        if any(member.role == role for member in heard)
    }
    attempts = [member.attempt for member in heard if member.attempt is not None]
    if not attempts and not preparation and previous is not None:
        sample = replace(previous, taken_at=now)
    else:
        sample = Sample(taken_at=now, preparation=preparation or None)
    if attempts:
        sample = _with_training(sample, heard, max(attempts), previous)
    is_silent = asked is not None and asked not in attempts
    since = _silent_since(previous, asked, now) if is_silent else None
    return replace(sample, asked=asked, silent_since=since)


def _silent_since(previous: Sample | None, asked: int | None, now: datetime) -> datetime:
    """When the silence of an attempt that is silent now began."""
    if previous is None or previous.asked != asked or previous.silent_since is None:
        return now
    return previous.silent_since


def _with_training(
    bare: Sample, heard: list[_Member], attempt: int, previous: Sample | None
) -> Sample:
    """Return a sample with the figures of an attempt."""
    workers = [item for item in heard if item.attempt == attempt and item.role == "worker"]
    comparable = previous if previous is not None and previous.attempt == attempt else None
    totals = _totals(workers, comparable)
    first = next((item.values for item in workers if item.values.get(TRAIN_RANK) == 0), {})
    epoch, batch = _whole(first.get(TRAIN_EPOCH)), _whole(first.get(TRAIN_BATCH))
    return replace(
        bare,
        attempt=attempt,
        epoch=epoch,
        epochs=_whole(first.get(TRAIN_EPOCHS)),
        batch=batch,
        batches_per_epoch=_whole(first.get(TRAIN_BATCHES)),
        images_per_second=_speed(workers),
        loss=first.get(TRAIN_LOSS),
        accuracy=first.get(TRAIN_ACCURACY),
        validation_accuracy=first.get(TRAIN_VALIDATION_ACCURACY),
        data_wait_share=_data_wait_share(totals, comparable),
        progressed_at=_progressed_at(totals, epoch, batch, comparable, bare.taken_at),
        totals=totals,
    )


def _totals(workers: list[_Member], previous: Sample | None) -> Totals:
    before = previous.totals.images if previous is not None and previous.totals else {}
    images = {member.pod: member.values.get(TRAIN_IMAGES, 0.0) for member in workers}
    return Totals(
        images={
            pod: max(images.get(pod, 0.0), before.get(pod, 0.0))
            for pod in images.keys() | before.keys()
        },
        step_seconds=_sum(workers, TRAIN_STEP_SUM) or 0.0,
        data_wait_seconds=_sum(workers, TRAIN_DATA_WAIT_SUM) or 0.0,
    )


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
    return _Member(pod, role, int(attempt) if attempt.isdigit() else None, values)


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


def _preparation(members: list[_Member]) -> Preparation:
    return Preparation(
        images=int(_sum(members, PREPARE_IMAGES) or 0),
        planned=int(_sum(members, PREPARE_PLANNED) or 0),
        bytes=int(_sum(members, PREPARE_BYTES) or 0),
        skipped=int(_sum(members, PREPARE_SKIPPED) or 0),
    )


def _data_wait_share(totals: Totals, previous: Sample | None) -> float | None:
    before = previous.totals if previous is not None else None
    step = totals.step_seconds - (before.step_seconds if before else 0.0)
    wait = totals.data_wait_seconds - (before.data_wait_seconds if before else 0.0)
    if step <= 0:
        return previous.data_wait_share if previous is not None else None
    return min(1.0, max(0.0, wait / step))


def _progressed_at(
    totals: Totals, epoch: int | None, batch: int | None, previous: Sample | None, now: datetime
) -> datetime:
    """When the attempt last moved: now, unless everything stands where the last sample stood."""
    if previous is None or previous.progressed_at is None or previous.totals is None:
        return now
    before = previous.totals.images
    moved = any(images > before.get(pod, 0.0) for pod, images in totals.images.items()) or (
        epoch is not None
        and previous.epoch is not None
        and (epoch, batch) != (previous.epoch, previous.batch)
    )
    return now if moved else previous.progressed_at

"""Figures: what the newest sample says, carried into the status for `kubectl get`.

They are rounded to what is worth reading: 0.1 images per second, 0.0001 of a share. What the model
is worth that an attempt has left, and how fast all of its training was, its rank 0 says with its
last words: no sample comes after them.
"""

from __future__ import annotations

from pydantic import ConfigDict, ValidationError

from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import Fraction, LongCount, Speed
from imagenet_operator.api.status import Accuracy, MemberStatus, TrainingStatus
from imagenet_operator.reconcile.policies import estimate
from imagenet_operator.reconcile.sample import Sample


class LastWords(Model):
    """What the worker of rank 0 leaves as its termination message: its `finished` event.

    What else an image may say there is for others.
    """

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    epochs: LongCount
    """How many were trained."""

    top1: Fraction | None = None
    """On all validation images; None without any."""

    images_per_second: Speed | None = None
    """Over all workers, without evaluations and checkpoints; None if it trained nothing."""


def carried(training: TrainingStatus, sample: Sample | None, batch_size: int) -> TrainingStatus:
    """Return the attempt's status with the figures of a sample of the same attempt.

    What the sample does not tell keeps its last value, but for speed and estimate: those are the
    sample's, which keeps them itself while some worker does not answer, or there are none.
    """
    if sample is None or sample.attempt != training.attempt:
        return training
    former = training.accuracy or Accuracy()
    accuracy = Accuracy(
        train=_share(sample.accuracy, former.train),
        validation=_share(sample.validation_accuracy, former.validation),
    )
    return training.model_copy(
        update={
            "epoch": training.epoch if sample.epoch is None else sample.epoch,
            "images_per_second": _tenths(sample.images_per_second),
            "accuracy": accuracy if accuracy != Accuracy() else None,
            "estimated_remaining_seconds": estimate.remaining_seconds(sample, batch_size),
            "data_wait_share": _share(sample.data_wait_share, None),
            "last_progress_time": sample.progressed_at,
        }
    )


def stilled(training: TrainingStatus) -> TrainingStatus:
    """Return the status of an attempt that has ended: without the figures that were of now."""
    return training.model_copy(
        update={
            "images_per_second": None,
            "estimated_remaining_seconds": None,
            "data_wait_share": None,
        }
    )


def final(training: TrainingStatus) -> TrainingStatus:
    """Return the status of an attempt that has succeeded: with what it says of its model."""
    words = next(filter(None, map(_last_words, training.members)), None)
    if words is None:
        return training
    former = training.accuracy or Accuracy()
    accuracy = Accuracy(train=former.train, validation=_share(words.top1, former.validation))
    return training.model_copy(
        update={
            "epoch": max(words.epochs - 1, 0),
            "images_per_second": _tenths(words.images_per_second),
            "accuracy": accuracy if accuracy != Accuracy() else None,
        }
    )


def _last_words(member: MemberStatus) -> LastWords | None:
    """Return what a worker said at its end; None if it said nothing of the kind."""
    if member.role != "worker" or member.phase != "Succeeded" or not member.message:
        return None
    try:
        return LastWords.model_validate_json(member.message)
    except ValidationError:
        return None


def _tenths(speed: float | None) -> float | None:
    return None if speed is None else round(speed, 1)


def _share(value: float | None, former: float | None) -> float | None:
    return former if value is None else round(min(1.0, max(0.0, value)), 4)

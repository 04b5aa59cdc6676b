"""Figures: what the newest sample says, carried into the status for `kubectl get`."""

from __future__ import annotations

from imagenet_operator.api.status import Accuracy, TrainingStatus
from imagenet_operator.reconcile.policies import estimate
from imagenet_operator.reconcile.sample import Sample


def carried(training: TrainingStatus, sample: Sample | None, batch_size: int) -> TrainingStatus:
    """Return the attempt's status with the figures of a sample of the same attempt.

    What the sample does not tell keeps its last value, but for speed and estimate: those are of now
    or not at all.
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
            "images_per_second": sample.images_per_second,
            "accuracy": accuracy if accuracy != Accuracy() else None,
            "estimated_remaining_seconds": estimate.remaining_seconds(sample, batch_size),
            "last_progress_time": sample.progressed_at,
        }
    )


def stilled(training: TrainingStatus) -> TrainingStatus:
    """Return the status of an attempt that has ended: without the figures that were of now."""
    return training.model_copy(
        update={"images_per_second": None, "estimated_remaining_seconds": None}
    )


def _share(value: float | None, former: float | None) -> float | None:
    return former if value is None else min(1.0, max(0.0, value))

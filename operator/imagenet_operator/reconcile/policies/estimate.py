"""The estimate: how long training will still take at the speed of the last sample."""

from __future__ import annotations

from imagenet_operator.api.fields import COUNT_MAXIMUM
from imagenet_operator.reconcile.sample import Sample


def remaining_seconds(sample: Sample, batch_size: int) -> int | None:
    """Return the seconds that the remaining batches take; None while nobody can know.

    Args:
        sample: Epoch and batch (of the epoch, so far), how many there are of each, and the speed of
            all workers, which may be of an earlier look.
        batch_size: Images of one step over all workers, which take a step together.
    """
    if (
        sample.epoch is None
        or sample.epochs is None
        or not sample.batches_per_epoch
        or not sample.images_per_second
    ):
        return None
    done = sample.epoch * sample.batches_per_epoch + (sample.batch or 0)
    left = max(0, sample.epochs * sample.batches_per_epoch - done)
    seconds = left * batch_size / sample.images_per_second
    return round(seconds) if seconds <= COUNT_MAXIMUM else None

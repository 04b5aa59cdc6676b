"""Columns: epochs and remaining time in words, since `kubectl get` only shows fields as they are.

Both change with every sample. Alone they are worth a write of the status at most once a minute.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from imagenet_operator.api.status import TrainingStatus

WRITE_INTERVAL: Final = timedelta(minutes=1)
"""The shortest time between two writes of the status for these columns."""

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def finished_epochs(training: TrainingStatus, epochs: int | None) -> str | None:
    """Return the finished epochs and all epochs; the former text if a number is not known.

    Args:
        training: With its epoch, from 0: so many are finished.
        epochs: How many there are.
    """
    if training.epoch is None or epochs is None:
        return training.finished_epochs
    return f"{training.epoch}/{epochs}"


def eta(seconds: int | None) -> str | None:
    """Return a remaining time, rounded to what its length makes plausible; None if unknown."""
    if seconds is None:
        return None
    if seconds < _MINUTE:
        return "<1m"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 10 * _HOUR:
        hours, minutes = divmod(seconds // (10 * _MINUTE) * 10, 60)
        return f"{hours}h{minutes:02}m"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    days, hours = divmod(seconds // _HOUR, 24)
    return f"{days}d" if days >= 10 else f"{days}d{hours}h"


def are_worth_a_write(old: TrainingStatus, new: TrainingStatus) -> bool:
    """Return whether the columns of an attempt changed, long enough after the last write."""
    if (old.finished_epochs, old.eta) == (new.finished_epochs, new.eta):
        return False
    before, after = old.last_progress_time, new.last_progress_time
    return before is None or after is None or after - before >= WRITE_INTERVAL

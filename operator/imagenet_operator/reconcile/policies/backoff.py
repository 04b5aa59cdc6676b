"""Back-off: the wait before the next attempt.

After the first failure of a row, the next attempt starts at once. The wait then doubles with each
failure, as for a Kubernetes Job; an attempt that trains new steps ends the row.

The first disruption since an attempt progressed waits for nothing, and others wait briefly. That
wait doubles, too, while attempts end before all of their members run.

A jitter spreads the waits, so that jobs that fail together do not restart together each time. It is
drawn from the job's UID and the attempt's number, not at random: a repeated reconcile decides the
same.
"""

from __future__ import annotations

import hashlib
import math
from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.reconcile.types import ReconcileSettings
from imagenet_spec.resource.time_status import WorkerSeconds

NEW_STEPS_SECONDS: Final = 30.0
"""How long an attempt has to train new steps to end a row of failures.

A program takes the steps of up to 10 s before a crash for new when it trains them again.
"""


SILENT_PROGRESS: Final = timedelta(minutes=10)
"""How long all members of an attempt without metrics have to run to count as progress."""


def jitter(uid: str, attempt: int) -> float:
    """Return a number in [0, 1) that is fixed for one attempt of one job."""
    digest = hashlib.sha256(f"{uid}/{attempt}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def ends_a_row(seconds: WorkerSeconds | None) -> bool:
    """Whether an attempt has trained enough new steps to end a row of failures.

    `seconds` are of rank 0 by phase; None if it has reported none, as a user's own program.
    """
    if seconds is None:
        return False
    return (seconds.data or 0.0) + (seconds.stepping or 0.0) >= NEW_STEPS_SECONDS


def is_progress(seconds: WorkerSeconds | None, ran: timedelta) -> bool:
    """Whether an attempt has progressed, so that disruptions are counted from 0 again.

    `ran` is how long all members ran.
    """
    return ends_a_row(seconds) or (seconds is None and ran >= SILENT_PROGRESS)


def after_failure(uid: str, attempt: int, in_a_row: int, settings: ReconcileSettings) -> timedelta:
    """Wait after a failure: none, then doubled with each, up to a limit, less up to a quarter."""
    if in_a_row <= 1:
        return timedelta()
    delay = _doubled(settings.restart_delay, in_a_row - 1, settings.restart_delay_limit)
    return _whole_seconds(delay * (1 - jitter(uid, attempt) / 4))


def after_full_volume(
    uid: str, attempt: int, in_a_row: int, settings: ReconcileSettings
) -> timedelta:
    """Wait before an attempt that finds out whether the output volume has room."""
    delay = _doubled(settings.restart_delay, in_a_row, settings.full_volume_delay_limit)
    return _whole_seconds(delay * (1 - jitter(uid, attempt) / 4))


def after_failed_upload(uid: str, failures: int, settings: ReconcileSettings) -> timedelta:
    """Wait before the next upload of a model: doubled with each, up to a limit, less a quarter."""
    delay = _doubled(settings.restart_delay, failures, settings.upload_delay_limit)
    return _whole_seconds(delay * (1 - jitter(uid, failures) / 4))


def after_disruption(
    uid: str, attempt: int, settings: ReconcileSettings, in_a_row: int = 1
) -> timedelta:
    """Wait before a restart that is not charged: up to half as long again as the setting.

    The wait doubles with each disruption in a row; this one is included.
    """
    delay = _doubled(settings.disruption_delay, in_a_row, settings.restart_delay_limit)
    return _whole_seconds(delay * (1 + jitter(uid, attempt) / 2))


def after_withdrawal(uid: str, attempt: int, schedule_timeout: timedelta) -> timedelta:
    """Wait before a gang that found no room tries again.

    Two jobs that each hold half of what the other needs are withdrawn at about the same time; the
    wait is spread over one whole timeout, so that one of them finds the room of both.
    """
    return _whole_seconds(schedule_timeout * (0.25 + jitter(uid, attempt)))


def after_start_error(
    since: datetime, now: datetime, deadline_seconds: int, settings: ReconcileSettings
) -> timedelta | None:
    """Wait before another attempt of a row that could not start; None if the row is over.

    The wait is as long as the row, so it doubles. The last attempt starts at the deadline.
    """
    left = since + timedelta(seconds=deadline_seconds) - now
    if left <= timedelta():
        return None
    delay = min(max(now - since, settings.restart_delay), settings.restart_delay_limit, left)
    return _whole_seconds(delay)


def _doubled(first: timedelta, number: int, limit: timedelta) -> timedelta:
    doublings: int = 2 ** min(number - 1, 32)
    return min(first * doublings, limit)


def _whole_seconds(delay: timedelta) -> timedelta:
    """Round up to what a time in a status can hold."""
    return timedelta(seconds=math.ceil(delay.total_seconds()))

"""Clocks behind the deadlines: time that counts, with the pauses left out.

preparationDeadlineSeconds counts the preparation, but not while the job is suspended;
activeDeadlineSeconds counts the time that all members of an attempt run, over all attempts, but
not preparation, suspension, or waiting for nodes and restarts.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from imagenet_operator.api.status import Clock


def run(clock: Clock, now: datetime) -> Clock:
    """Return the clock running; one that runs is unchanged."""
    return clock if clock.since is not None else Clock(seconds=clock.seconds, since=now)


def stop(clock: Clock, now: datetime) -> Clock:
    """Return the clock stopped; one that is stopped is unchanged."""
    return clock if clock.since is None else Clock(seconds=_elapsed(clock, now))


def ends_at(clock: Clock, deadline_seconds: int | None) -> datetime | None:
    """Return when a running clock reaches a deadline; None if it is stopped, or without one."""
    if deadline_seconds is None or clock.since is None:
        return None
    return clock.since + timedelta(seconds=deadline_seconds - clock.seconds)


def is_over(clock: Clock, deadline_seconds: int | None, now: datetime) -> bool:
    """Return whether a clock, running or not, has reached a deadline."""
    return deadline_seconds is not None and _elapsed(clock, now) >= deadline_seconds


def _elapsed(clock: Clock, now: datetime) -> int:
    if clock.since is None:
        return clock.seconds
    return clock.seconds + max(0, int((now - clock.since).total_seconds()))

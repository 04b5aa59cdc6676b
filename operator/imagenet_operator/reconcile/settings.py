"""Settings of the operator that decisions take: waits and limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from imagenet_operator.manifests import settings as manifests


@dataclass(frozen=True)
class ReconcileSettings:
    """Settings of the operator for all jobs.

    Attributes:
        restart_delay: Wait after the second failure of a row; doubled with each further one.
        restart_delay_limit: Longest such wait.
        disruption_delay: Wait before a restart that is not charged.
        disruption_limit: How many restarts after a disruption a job may have.
        full_volume_delay_limit: Longest wait before an attempt after one with a full volume.
        full_volume_limit: How many attempts in a row may find the output volume full.
        exit_grace_period: How long a scheduler, server or rendezvous that exited with 0 may precede
            the last worker.
        requeue_interval: Time to the next reconcile when no event may announce the change that the
            job waits for: a name that another object holds, a node that may become unreachable.
        resync_period: Longest time between two reconciles of an unfinished job; events may be lost.
        manifests: What the builders take.
    """

    restart_delay: timedelta = timedelta(seconds=10)
    restart_delay_limit: timedelta = timedelta(minutes=6)
    disruption_delay: timedelta = timedelta(seconds=5)
    disruption_limit: int = 100
    full_volume_delay_limit: timedelta = timedelta(minutes=10)
    full_volume_limit: int = 24
    exit_grace_period: timedelta = timedelta(seconds=60)
    requeue_interval: timedelta = timedelta(seconds=30)
    resync_period: timedelta = timedelta(minutes=5)
    manifests: manifests.Settings = manifests.DEFAULTS


DEFAULTS = ReconcileSettings()
"""What the project publishes."""

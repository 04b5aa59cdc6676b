"""`spec.runPolicy`: clean-up, deadlines, limits, suspension and gang scheduling.

The names are those of Kubeflow's runPolicy, if it has the field.
"""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le

from imagenet_operator.api.base import DefaultWhenRead, Model, Unit
from imagenet_operator.api.fields import INT32_MAXIMUM, Count, Manager, Seconds

MANAGER = "imagenet.dev/imagenet-operator"
"""The value of `managedBy` for this project's operator, which is also the default."""


class SchedulingPolicy(Model):
    """Gang scheduling: all members of an attempt get nodes, or none keeps one."""

    gang: Literal["Timeout", "Wait"] = "Timeout"
    """Timeout withdraws an attempt that is not bound in time, without a charge, and tries again
    later. Wait holds its pods by a scheduling gate until all of them fit."""

    schedule_timeout_seconds: Seconds = 600
    """The time in which all members of an attempt must be bound, with Timeout."""


class RunPolicy(Model):
    """The policies for a job and its pods."""

    clean_pod_policy: Literal["None", "Running", "All"] = "Running"
    """The pods that are deleted when the job ends. None also keeps the failed pods of an attempt
    until the next attempt fails."""

    ttl_seconds_after_finished: Annotated[int, Ge(0), Le(INT32_MAXIMUM), Unit("seconds")] | None = (
        None
    )
    """The time from the job's end to its deletion. Absent: it is not deleted."""

    active_deadline_seconds: Seconds | None = None
    """The longest time of training, over all attempts. Preparation, suspension, and waits
    for nodes or for a restart do not count."""

    preparation_deadline_seconds: Seconds | None = None
    """The longest time of the preparation. Suspension does not count."""

    start_deadline_seconds: Annotated[Seconds, DefaultWhenRead()] = 600
    """The time after which a job fails that cannot start because of an image or the configuration
    of its pods: a missing image, an invalid name, a missing Secret. It counts from the first such
    error and ends when the error does. A slow pull does not count."""

    progress_deadline_seconds: Seconds = 1800
    """The time without progress after which an attempt fails. It ends hangs in which every pod
    runs. It does not apply to an attempt whose metrics could never be read."""

    backoff_limit: Count = 6
    """The number of restarts after failed attempts before the job fails. Preemption, eviction and
    node loss do not count."""

    suspend: bool = False
    """Stops the job and frees its nodes, until it is false again."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    """Gang scheduling."""

    retention_policy: Literal["Retain", "Delete"] = "Retain"
    """Whether the claims that the operator created outlive the job."""

    managed_by: Manager | None = None
    """The manager of the job: absent or ``imagenet.dev/imagenet-operator`` for this operator. It
    ignores jobs with any other manager. Never changes."""

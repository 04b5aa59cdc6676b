"""`spec.runPolicy`: when pods go, when a job gives up, and how an attempt gets its nodes.

Names follow Kubeflow's runPolicy where it has them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le

from imagenet_operator.api.base import Model, Unit
from imagenet_operator.api.fields import INT32_MAXIMUM, Count, Manager, Seconds

MANAGER = "imagenet.dev/imagenet-operator"
"""What `managedBy` says of the jobs that this project's operator works on, as its absence does."""


class SchedulingPolicy(Model):
    """How all members of an attempt get nodes at one time, or none does."""

    gang: Literal["Timeout", "Wait"] = "Timeout"
    """Timeout withdraws an attempt that is not bound in time, uncharged, and tries again later.
    Wait holds its pods back by a scheduling gate until all fit."""

    schedule_timeout_seconds: Seconds = 600
    """How long the members of an attempt may take to be bound, with Timeout."""


class RunPolicy(Model):
    """The life of a job and of its pods."""

    clean_pod_policy: Literal["None", "Running", "All"] = "Running"
    """Which pods are deleted when the job ends."""

    ttl_seconds_after_finished: Annotated[int, Ge(0), Le(INT32_MAXIMUM), Unit("seconds")] | None = (
        None
    )
    """How long after its end the job itself is deleted. Absent: never."""

    active_deadline_seconds: Seconds | None = None
    """How long all members may train, over all attempts. Preparation, suspension, and waiting for
    nodes or for a restart are not counted."""

    preparation_deadline_seconds: Seconds | None = None
    """How long preparing the dataset may take, time spent suspended not counted."""

    progress_deadline_seconds: Seconds = 1800
    """How long an attempt may go without progress before it is ended and counted as failed: the
    remedy for a hang in which every pod runs. An attempt whose metrics could never be read is left
    alone."""

    backoff_limit: Count = 6
    """How many attempts may fail before the job does. Preemption, eviction and node loss are not
    counted here."""

    suspend: bool = False
    """Stops the job and frees its nodes until it is false again."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    """How an attempt gets its nodes."""

    retention_policy: Literal["Retain", "Delete"] = "Retain"
    """Whether the claims that the operator made outlive the job."""

    managed_by: Manager | None = None
    """Who works on the job: absent or ``imagenet.dev/imagenet-operator`` for this operator; with
    any other name it leaves the job, its status and its children alone. Never changes."""

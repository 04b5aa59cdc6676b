"""`status.time`: where the time of a job went. `reconcile.policies.time_account` keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Final, Literal

from annotated_types import Ge

from imagenet_spec.resource.base import Model, Unit
from imagenet_spec.resource.fields import COUNT_MAXIMUM, Fraction, Spent, Time

JobPhase = Literal[
    "queued", "queueing", "fetching", "preparing", "suspended", "pulling", "training", "restarting"
]


class WorkerSeconds(Model):
    """Seconds of the worker of rank 0 by phase, as its program reports them."""

    starting: Spent | None = None
    """Start of the process, imports, opening of the data."""

    joining: Spent | None = None
    """Wait for the other members."""

    restoring: Spent | None = None
    """Search for a checkpoint, its load, building of the network."""

    data: Spent | None = None
    """Wait for data, in steps that no earlier attempt had trained."""

    stepping: Spent | None = None
    """The rest of these steps: gradients, exchange, update."""

    redone: Spent | None = None
    """Steps that an earlier attempt had trained already."""

    evaluating: Spent | None = None
    """Classification of the validation images."""

    checkpointing: Spent | None = None
    """Writing of checkpoints."""

    exporting: Spent | None = None
    """Writing of the model and of result.json."""

    ending: Spent | None = None
    """Wait for the other workers after that."""


class JobSeconds(WorkerSeconds):
    """Seconds of a job by phase, over all attempts."""

    queued: Spent | None = None
    """Wait for quota in a queue of Kueue."""

    queueing: Spent | None = None
    """Wait for claims, and for nodes for all members of an attempt."""

    fetching: Spent | None = None
    """Fetch of the source's files into the cache."""

    preparing: Spent | None = None
    """The rest of the preparation of the dataset."""

    suspended: Spent | None = None
    """Suspension."""

    pulling: Spent | None = None
    """From the nodes for all members until all of them run: pulls, volumes, containers."""

    restarting: Spent | None = None
    """From the end of an attempt to the pods of the next one, back-off included."""

    unreported: Spent | None = None
    """Time of an attempt that rank 0 has not reported, or not yet: hangs, lost samples."""


WORKER_PHASES: Final = tuple(WorkerSeconds.model_fields)
"""The phases of a worker."""

PHASES: Final = tuple(JobSeconds.model_fields)
"""All phases."""


class TimeStatus(Model):
    """Where the time of the job went. The phases add up to the time since its creation."""

    phases: JobSeconds = JobSeconds()
    """Seconds by phase."""

    goodput: Fraction | None = None
    """The fraction of the time without suspensions that went to steps that are not redone."""

    gpu_hours: Annotated[float, Ge(0), Unit("hours")] | None = None
    """The hours in which members had nodes, times their GPUs."""

    phase: JobPhase | None = None
    """The present phase; absent once the job has ended."""

    counted_until: Time | None = None
    """The end of the time that is counted."""


def seconds_of(model: WorkerSeconds) -> dict[str, float]:
    """Return the seconds by phase that are set."""
    return {name: value for name, value in model if value is not None}


def worker_seconds(reported: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of known phases, rounded; values that no status could hold are dropped."""
    return {
        name: round(value, 1)
        for name, value in reported.items()
        if name in WORKER_PHASES and isfinite(value) and 0 <= value <= COUNT_MAXIMUM
    }

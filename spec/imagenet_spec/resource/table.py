"""Jobs as a table, in a terminal and in a notebook.

`imagenetctl list` and `status` print the columns; a notebook shows the same as HTML, in which the
texts of a job are escaped.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from imagenet_spec.resource.status import Status
from imagenet_spec.resource.training import TrainingSpec


class _Metadata(Protocol):
    @property
    def name(self) -> str: ...


class _Spec(Protocol):
    @property
    def training(self) -> TrainingSpec: ...


class Job(Protocol):
    """What the table reads of an ImageNetJob, whose module imports this one."""

    @property
    def metadata(self) -> _Metadata: ...

    @property
    def spec(self) -> _Spec: ...

    @property
    def status(self) -> Status: ...


_Column = Callable[[Job], object]

COLUMNS: Final[dict[str, _Column]] = {
    "name": lambda job: job.metadata.name,
    "phase": lambda job: job.status.phase,
    "epoch": lambda job: job.status.training and job.status.training.finished_epochs,
    "images/s": lambda job: job.status.training and job.status.training.images_per_second,
    "top-1": lambda job: (
        job.status.training
        and job.status.training.accuracy
        and job.status.training.accuracy.validation
    ),
    "remaining": lambda job: job.status.training and job.status.training.eta,
    "restarts": lambda job: job.status.restarts,
    "GPUs": lambda job: gpus(job),
    "GPU use": lambda job: job.status.training and job.status.training.gpu_utilization,
}
"""The heading of a column → its value; None if it is not known."""

WIDE: Final[dict[str, _Column]] = {
    **COLUMNS,
    "disruptions": lambda job: job.status.disruptions,
    "attempt": lambda job: job.status.training and job.status.training.attempt,
    "reason": lambda job: job.status.reason,
}


def gpus(job: Job) -> int:
    """Return the GPUs of all workers of the current attempt."""
    workers, training = job.spec.training.workers, job.status.training
    running = None if training is None else training.workers
    return (workers.replicas if running is None else running) * workers.gpus


def text(value: object) -> str:
    """Return a cell of the table."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value > 1 else f"{value:.4f}"
    return "-" if value is None else str(value)


def as_html(jobs: Iterable[Job]) -> str:
    """Return jobs as a table of HTML, with the reason and the message of each job's state."""
    columns = {**COLUMNS, "state": _state}
    rows = [[text(read(job)) for read in columns.values()] for job in jobs]
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _state(job: Job) -> str | None:
    reason = job.status.reason
    messages = [found.message for found in job.status.conditions if found.reason == reason]
    return ": ".join(filter(None, (reason, *messages[-1:]))) or None

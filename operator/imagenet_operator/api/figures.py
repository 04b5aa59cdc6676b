"""The figures of a training: a worker's metric, the status field and the column of kubectl.

One row of `FIGURES` defines a figure. `reconcile.sample` reads the metric and combines it over the
workers, `reconcile.policies.figures` updates the status, and `crd` adds the column. A local run
shows the figures with a label. Tests compare the table with the status model and with the metrics
of the workloads; docs/telemetry.md is generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any, Final

from pydantic.alias_generators import to_camel

from imagenet_operator.api.base import Manifest
from imagenet_operator.api.fields import COUNT_MAXIMUM
from imagenet_operator.api.status import Accuracy, TrainingStatus


class Combine(StrEnum):
    """How the values of the workers become the value of the job."""

    RANK_0 = "value of the worker of rank 0"
    SUM = "sum over the workers"
    RATIO = "ratio of two increases since the last sample, each summed over the workers"
    DERIVED = "computed from other figures"


@dataclass(frozen=True)
class Number:
    """The range and format of a figure.

    Attributes:
        digits: The decimals in the status; 0 for an integer.
        maximum: The largest value; the minimum is 0.
        is_clamped: Whether a value out of range is moved into it; otherwise it is dropped.
        type: The type of kubectl's column.
        form: A format specification, for people.
    """

    digits: int
    maximum: float = inf
    is_clamped: bool = False
    type: str = "number"
    form: str = ".3f"

    def accepted(self, value: float | None) -> float | None:
        """Return a value in the range of the status, unrounded; None if it is not possible."""
        if value is None or self.is_clamped:
            return value
        return value if 0 <= value <= self.maximum and value < inf else None

    def rounded(self, value: float | None) -> float | None:
        """Return a value rounded for the status."""
        accepted = self.accepted(value)
        if accepted is None:
            return None
        clamped = self.clamped(accepted)
        return round(clamped, self.digits) if self.digits else round(clamped)

    def clamped(self, value: float) -> float:
        """Return a value moved into the range."""
        return min(self.maximum, max(0.0, value))


COUNT: Final = Number(0, COUNT_MAXIMUM, type="integer", form=",")
RATE: Final = Number(1, form=",.0f")
SECONDS: Final = Number(1, form=",.1f")
MICROSECONDS: Final = Number(6)
"""Of a value in seconds."""
FLAG: Final = Number(0, 1.0, type="integer")
"""0 or 1."""
SHARE: Final = Number(4, 1.0, is_clamped=True)


@dataclass(frozen=True)
class Change:
    """The change of a figure that is worth a write of the status; none by default.

    Attributes:
        above: A greater absolute change is worth a write.
        at: This absolute change, or a greater one, is worth a write.
        relative: A greater change, as a fraction of the former value, is worth a write.
    """

    above: float = inf
    at: float = inf
    relative: float = inf

    def is_made(self, before: float | None, after: float | None) -> bool:
        """Whether the step from one value to another is worth a write."""
        if self == NEVER:
            return False
        if before is None or after is None:
            return before is not after
        moved = abs(after - before)
        return moved > self.above or moved >= self.at or moved > self.relative * before


NEVER: Final = Change()


@dataclass(frozen=True)
class Column:
    """A printer column.

    Attributes:
        name: Its heading.
        priority: 0 for `kubectl get`, 1 for `kubectl get -o wide`.
        text: The field below ``status.training`` with the figure in words; the figure if empty.
    """

    name: str
    priority: int = 0
    text: str = ""


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        field: Its attribute below ``status.training``, such as ``accuracy.train``.
        number: Range and rounding.
        combine: How it is combined over the workers.
        metric: The worker's metric; empty if the figure is derived.
        per: The series that a ratio is divided by.
        lasts: Whether the last value stays while no worker reports one, and after the attempt's
            end.
        worth_a_write: The change for which alone the status is written.
        column: Its column in `kubectl get`.
        label: Its label in the output of a local run; empty if it is not shown.
    """

    field: str
    number: Number
    combine: Combine
    metric: str = ""
    per: str = ""
    lasts: bool = False
    worth_a_write: Change = NEVER
    column: Column | None = None
    label: str = ""

    @property
    def path(self) -> str:
        """The field in a manifest, below ``status.training``."""
        return ".".join(map(to_camel, self.field.split(".")))


EPOCH: Final = "epoch"
SPEED: Final = "images_per_second"
REMAINING: Final = "estimated_remaining_seconds"
VALIDATION: Final = "accuracy.validation"
CHECKPOINT: Final = "checkpoint_epoch"
LOOP_CPU: Final = "loop_cpu_seconds"
COMPILED: Final = "compiled"
CHECKPOINT_STALL: Final = "checkpoint_stall_seconds"

FIGURES: Final = (
    Figure(
        EPOCH,
        COUNT,
        Combine.RANK_0,
        "imagenet_train_epoch",
        lasts=True,
        column=Column("Epoch", text="finishedEpochs"),
    ),
    Figure(
        SPEED,
        RATE,
        Combine.SUM,
        "imagenet_train_images_per_second",
        worth_a_write=Change(relative=0.2),
        column=Column("Images/s"),
    ),
    Figure(
        "accuracy.train",
        SHARE,
        Combine.RANK_0,
        "imagenet_train_top1",
        lasts=True,
        worth_a_write=Change(at=0.01),
        label="top-1",
    ),
    Figure(
        VALIDATION,
        SHARE,
        Combine.RANK_0,
        "imagenet_train_validation_top1",
        lasts=True,
        worth_a_write=Change(at=0.01),
        column=Column("Top-1"),
        label="validation",
    ),
    Figure(REMAINING, COUNT, Combine.DERIVED, column=Column("ETA", text="eta")),
    Figure(
        "data_wait_share",
        SHARE,
        Combine.RATIO,
        "imagenet_train_data_wait_seconds_sum",
        per="imagenet_train_step_seconds_sum",
    ),
    Figure(
        CHECKPOINT,
        COUNT,
        Combine.RANK_0,
        "imagenet_train_checkpoint_epoch",
        lasts=True,
        # The first one, and then ever fewer.
        worth_a_write=Change(relative=1),
    ),
    Figure(
        "unsaved_seconds",
        SECONDS,
        Combine.RANK_0,
        "imagenet_train_unsaved_seconds",
        lasts=True,
    ),
    Figure(
        LOOP_CPU,
        MICROSECONDS,
        Combine.RANK_0,
        "imagenet_train_loop_cpu_seconds",
        lasts=True,
    ),
    Figure(
        COMPILED,
        FLAG,
        Combine.RANK_0,
        "imagenet_train_compiled",
        lasts=True,
        worth_a_write=Change(at=1),
    ),
    Figure(
        CHECKPOINT_STALL,
        MICROSECONDS,
        Combine.RANK_0,
        "imagenet_train_checkpoint_stall_seconds",
        lasts=True,
    ),
    Figure(
        "checkpoint_every_seconds",
        SECONDS,
        Combine.RANK_0,
        "imagenet_train_checkpoint_interval_seconds",
        lasts=True,
    ),
)
"""All figures, in the order of columns and documentation."""

GROUPS: Final = {"accuracy": Accuracy}
"""The fields of the training's status whose subfields are figures."""


def columns(priority: int) -> list[Manifest]:
    """Return the printer columns of a priority."""
    return [
        {
            "name": figure.column.name,
            "type": "string" if figure.column.text else figure.number.type,
            "jsonPath": f".status.training.{figure.column.text or figure.path}",
            **({"priority": priority} if priority else {}),
        }
        for figure in FIGURES
        if figure.column is not None and figure.column.priority == priority
    ]


def values(training: TrainingStatus) -> dict[str, float]:
    """Return the figures of a status that are set, by field."""
    found = {}
    for figure in FIGURES:
        value: Any = training
        for name in figure.field.split("."):
            value = getattr(value, name, None)
        if value is not None:
            found[figure.field] = value
    return found


def with_values(training: TrainingStatus, new: Mapping[str, float | None]) -> TrainingStatus:
    """Return a status with figures by field, rounded; other figures are removed."""
    changes: dict[str, Any] = {}
    groups: dict[str, dict[str, float | None]] = {name: {} for name in GROUPS}
    for figure in FIGURES:
        first, _, rest = figure.field.partition(".")
        target, key = (groups[first], rest) if rest else (changes, first)
        target[key] = figure.number.rounded(new.get(figure.field))
    for name, fields in groups.items():
        is_set = any(value is not None for value in fields.values())
        changes[name] = GROUPS[name].model_validate(fields) if is_set else None
    return training.model_copy(update=changes)


def is_worth_a_write(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether the change of the figures, by field, is worth a write of the status."""
    return any(
        figure.worth_a_write.is_made(before.get(figure.field), after.get(figure.field))
        for figure in FIGURES
    )

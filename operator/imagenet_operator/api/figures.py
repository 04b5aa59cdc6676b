"""The figures of a training: from a worker's metric to the status and to a column of kubectl.

One row of `FIGURES` is all that the operator knows of a figure. `reconcile.sample` reads the metric
and combines it over the workers, `reconcile.policies.figures` writes the status, `crd` makes the
column, and a local run shows the figures that have a label. Tests compare the table with the model
of the status and with the metrics that the workloads export; docs/telemetry.md is generated.
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
    """What values a figure has.

    Attributes:
        digits: Decimals in the status; 0 for an integer.
        maximum: Of the value; the minimum is 0.
        is_clamped: Whether a value out of range is moved into it; otherwise it is dropped.
        type: As a column of kubectl declares it.
        form: A format specification, for people.
    """

    digits: int
    maximum: float = inf
    is_clamped: bool = False
    type: str = "number"
    form: str = ".3f"

    def accepted(self, value: float | None) -> float | None:
        """Return a value as a status could hold it, unrounded; None for one that it could not."""
        if value is None or self.is_clamped:
            return value
        return value if 0 <= value <= self.maximum and value < inf else None

    def rounded(self, value: float | None) -> float | None:
        """Return a value as it is written into the status."""
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
SHARE: Final = Number(4, 1.0, is_clamped=True)


@dataclass(frozen=True)
class Change:
    """How far a figure has to move for a write of the status; never, unless a field is given.

    Attributes:
        above: The absolute change that is not worth a write, but every greater one.
        at: The least absolute change that is.
        relative: The part of the former value that is not, but every greater change.
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
        name: Its head.
        priority: 0 for `kubectl get`, 1 for `kubectl get -o wide`.
    """

    name: str
    priority: int = 0


@dataclass(frozen=True)
class Figure:
    """The way of one figure.

    Attributes:
        field: Where it is below ``status.training``, as attributes: ``accuracy.train``.
        number: Range and rounding.
        combine: How it is combined over the workers.
        metric: The series of a worker that it is read from; empty if it is derived.
        per: The series that a ratio is divided by.
        lasts: Whether the last value stays when none is heard, and after the attempt has ended.
        worth_a_write: What change of it alone the status is written for.
        column: In the output of `kubectl get`.
        label: Before the value in the output of a local run; empty for a figure that is not shown.
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

FIGURES: Final = (
    Figure(
        EPOCH,
        COUNT,
        Combine.RANK_0,
        "imagenet_train_epoch",
        lasts=True,
        worth_a_write=Change(above=0),
        column=Column("Epoch"),
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
    Figure(REMAINING, COUNT, Combine.DERIVED),
    Figure(
        "data_wait_share",
        SHARE,
        Combine.RATIO,
        "imagenet_train_data_wait_seconds_sum",
        per="imagenet_train_step_seconds_sum",
    ),
)
"""In the order of the columns and of the documentation."""

GROUPS: Final = {"accuracy": Accuracy}
"""The fields of the training's status whose own fields are figures."""


def columns(priority: int) -> list[Manifest]:
    """Return the printer columns of a priority."""
    return [
        {
            "name": figure.column.name,
            "type": figure.number.type,
            "jsonPath": f".status.training.{figure.path}",
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
    """Return a status with figures by field, rounded; those that are not given are removed."""
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
    """Whether a status is to be written because its figures moved, both by field."""
    return any(
        figure.worth_a_write.is_made(before.get(figure.field), after.get(figure.field))
        for figure in FIGURES
    )

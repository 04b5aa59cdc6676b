"""The figures of a training: a worker's metric, the status field and the column of kubectl.

A field of `TrainingFigures` or `Accuracy` declares a figure: its type and description, and by
`Figure` how the operator makes it from the metrics of the workers. `reconcile.sample` reads the
metrics and combines them, `reconcile.policies.job_status` updates the status, and `crd` adds the
columns. A local run shows the figures with a label. docs/telemetry.md is generated from `FIGURES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Annotated, Any, Final, TypeVar

from annotated_types import Ge, Le
from pydantic.alias_generators import to_camel

from imagenet_spec import metrics
from imagenet_spec.resource.base import Manifest, Model, Unit
from imagenet_spec.resource.fields import COUNT_MAXIMUM, Fraction, LongCount, Speed, Spent


class Combine(StrEnum):
    """How the values of the workers become the value of the job."""

    RANK_0 = "value of the worker of rank 0"
    SUM = "sum over the workers"
    MEAN = "mean over the workers that have it"
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
        accepted = self.accepted(value)
        if accepted is None:
            return None
        clamped = self.clamped(accepted)
        return round(clamped, self.digits) if self.digits else round(clamped)

    def clamped(self, value: float) -> float:
        return min(self.maximum, max(0.0, value))


COUNT: Final = Number(0, COUNT_MAXIMUM, type="integer", form=",")
RATE: Final = Number(1, form=",.0f")
SECONDS: Final = Number(1, form=",.1f")
MICROSECONDS: Final = Number(6)
"""Of a value in seconds."""
FLAG: Final = Number(0, 1.0, type="integer")
"""0 or 1."""
SHARE: Final = Number(4, 1.0, is_clamped=True)
LOSS: Final = Number(4, form=".4f")
LEARNING_RATE: Final = Number(9, form=".4g")


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
    """One figure: a mark of the field below ``status.training`` that has it.

    Attributes:
        number: Range and rounding.
        combine: How it is combined over the workers.
        metric: The worker's series; empty if the figure is derived.
        per: The series that a ratio is divided by.
        lasts: Whether the last value stays while no worker reports one, and after the attempt's
            end.
        worth_a_write: The change for which alone the status is written.
        column: Its column in `kubectl get`.
        label: Its label in the output of a local run; empty if it is not shown.
        field: The field with its path, such as ``accuracy.train``; `FIGURES` has it filled in.
    """

    number: Number
    combine: Combine
    metric: str = ""
    per: str = ""
    lasts: bool = False
    worth_a_write: Change = NEVER
    column: Column | None = None
    label: str = ""
    field: str = ""

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
CHECKPOINT_STALL: Final = "checkpoint_stall_seconds"
"""The fields of figures that policies refer to."""


class Accuracy(Model):
    """Top-1 accuracy, as the member of rank 0 reports it."""

    train: Annotated[
        Fraction | None,
        Figure(
            SHARE,
            Combine.RANK_0,
            metrics.TRAIN_TOP1.name,
            lasts=True,
            worth_a_write=Change(at=0.01),
            label="top-1",
        ),
    ] = None
    """The accuracy on the training images of the epoch so far."""

    validation: Annotated[
        Fraction | None,
        Figure(
            SHARE,
            Combine.RANK_0,
            metrics.TRAIN_VALIDATION_TOP1.name,
            lasts=True,
            worth_a_write=Change(at=0.01),
            column=Column("Top-1"),
            label="validation",
        ),
    ] = None
    """The accuracy on all validation images, after the last complete epoch."""


class TrainingFigures(Model):
    """The figures of an attempt."""

    epoch: Annotated[
        LongCount | None,
        Figure(
            COUNT,
            Combine.RANK_0,
            metrics.TRAIN_EPOCH.name,
            lasts=True,
            column=Column("Epoch", text="finishedEpochs"),
        ),
    ] = None
    """The current epoch, from 0."""

    images_per_second: Annotated[
        Speed | None,
        Figure(
            RATE,
            Combine.SUM,
            metrics.TRAIN_IMAGES_PER_SECOND.name,
            worth_a_write=Change(relative=0.2),
            column=Column("Images/s"),
        ),
    ] = None
    """The sum over all workers. After success it is that of the whole attempt, without
    evaluations and checkpoints."""

    loss: Annotated[
        Annotated[float, Ge(0), Unit("nats")] | None,
        Figure(LOSS, Combine.RANK_0, metrics.TRAIN_LOSS.name, lasts=True, label="loss"),
    ] = None
    """The mean cross-entropy over the training images of the epoch so far."""

    accuracy: Accuracy | None = None
    """The last known accuracy."""

    learning_rate: Annotated[
        Annotated[float, Ge(0)] | None,
        Figure(
            LEARNING_RATE,
            Combine.RANK_0,
            metrics.TRAIN_LEARNING_RATE.name,
            lasts=True,
            label="learning rate",
        ),
    ] = None
    """The optimizer's learning rate."""

    estimated_remaining_seconds: Annotated[
        Annotated[LongCount, Unit("seconds")] | None,
        Figure(COUNT, Combine.DERIVED, column=Column("ETA", text="eta")),
    ] = None
    """The estimated remaining time, at the current speed."""

    data_wait_share: Annotated[
        Fraction | None,
        Figure(
            SHARE,
            Combine.RATIO,
            metrics.TRAIN_DATA_WAIT_SECONDS.sum_series,
            per=metrics.TRAIN_STEP_SECONDS.sum_series,
        ),
    ] = None
    """The fraction of the workers' time spent waiting for data, since the previous sample."""

    gpu_utilization: Annotated[
        Fraction | None,
        Figure(
            SHARE,
            Combine.MEAN,
            metrics.TRAIN_GPU_UTILIZATION.name,
            column=Column("GPU use", priority=1),
        ),
    ] = None
    """The fraction of time in which the workers' GPUs run a kernel, as NVIDIA's driver measures it
    over the last second."""

    checkpoint_epoch: Annotated[
        Annotated[LongCount, Unit("epochs")] | None,
        Figure(
            COUNT,
            Combine.RANK_0,
            metrics.TRAIN_CHECKPOINT_EPOCH.name,
            lasts=True,
            # The first one, and then ever fewer.
            worth_a_write=Change(relative=1),
        ),
    ] = None
    """The finished epochs of the newest checkpoint, over all attempts."""

    unsaved_seconds: Annotated[
        Spent | None,
        Figure(SECONDS, Combine.RANK_0, metrics.TRAIN_UNSAVED_SECONDS.name, lasts=True),
    ] = None
    """The seconds of steps since the newest checkpoint. If the job fails, they are lost."""

    loop_cpu_seconds: Annotated[
        Spent | None,
        Figure(MICROSECONDS, Combine.RANK_0, metrics.TRAIN_LOOP_CPU.name, lasts=True),
    ] = None
    """The median CPU time of a step in the training thread of rank 0, outside the framework's
    calls."""

    compiled: Annotated[
        Annotated[int, Ge(0), Le(1)] | None,
        Figure(
            FLAG,
            Combine.RANK_0,
            metrics.TRAIN_COMPILED.name,
            lasts=True,
            worth_a_write=Change(at=1),
        ),
    ] = None
    """1 if compiled code trains, 0 if the network itself does, because compiling failed or there is
    no compiler. Absent if compiled code was not chosen."""

    checkpoint_stall_seconds: Annotated[
        Spent | None,
        Figure(MICROSECONDS, Combine.RANK_0, metrics.TRAIN_CHECKPOINT_STALL.name, lasts=True),
    ] = None
    """How long a checkpoint holds training up: the time above the median step, summed over the
    steps during which it or its receipt is copied, written or hashed. The mean of this attempt."""

    checkpoint_every_seconds: Annotated[
        Spent | None,
        Figure(SECONDS, Combine.RANK_0, metrics.TRAIN_CHECKPOINT_INTERVAL.name, lasts=True),
    ] = None
    """The time from one checkpoint to the next within an epoch, as it is in force."""


GROUPS: Final = {"accuracy": Accuracy}
"""The fields of the training's status whose subfields are figures."""


def _declared(model: type[Model], prefix: str = "") -> Iterator[Figure]:
    for name, field in model.model_fields.items():
        if name in GROUPS:
            yield from _declared(GROUPS[name], f"{name}.")
        for mark in field.metadata:
            if isinstance(mark, Figure):
                yield replace(mark, field=prefix + name)


FIGURES: Final = tuple(_declared(TrainingFigures))
"""All figures, in the order of columns and documentation."""

Training = TypeVar("Training", bound=TrainingFigures)


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


def values(training: TrainingFigures) -> dict[str, float]:
    """Return the figures of a status that are set, by field."""
    found = {}
    for figure in FIGURES:
        value: Any = training
        for name in figure.field.split("."):
            value = getattr(value, name, None)
        if value is not None:
            found[figure.field] = value
    return found


def with_values(training: Training, new: Mapping[str, float | None]) -> Training:
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

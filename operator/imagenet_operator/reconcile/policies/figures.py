"""Figures: the newest sample's values, carried into the status for `kubectl get`.

`api.figures` has the way of each. The final values of an attempt come from the termination message
of rank 0, because no sample follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from annotated_types import Ge
from pydantic import ConfigDict, ValidationError

from imagenet_operator.api import figures
from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import COUNT_MAXIMUM, Fraction, LongCount, Speed
from imagenet_operator.api.figures import (
    CHECKPOINT,
    CHECKPOINT_STALL,
    EPOCH,
    FIGURES,
    LOOP_CPU,
    REMAINING,
    SPEED,
    VALIDATION,
)
from imagenet_operator.api.status import MemberStatus, Status, TrainingStatus
from imagenet_operator.api.time_status import TimeStatus
from imagenet_operator.reconcile.policies import columns, data_wait, fetch
from imagenet_operator.reconcile.sample import Sample


class TerminationMessage(Model):
    """The result in a worker's termination message.

    The worker of rank 0 leaves its `finished` event. With `--test-io`, every worker leaves a `read`
    event. Other fields are ignored.
    """

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    event: Literal["finished", "read"] = "finished"
    """What the worker has done."""

    epochs: LongCount | None = None
    """How many were trained."""

    top1: Fraction | None = None
    """On all validation images; None without any."""

    images_per_second: Speed | None = None
    """Over all workers, without evaluations and checkpoints; None if no image was trained. Of one
    process, if it has only read."""

    seconds: dict[str, float] | None = None
    """The time of rank 0 by phase."""

    loop_cpu_seconds: Annotated[float, Ge(0)] | None = None
    """The median CPU time of a step of rank 0 outside the framework's learner."""

    checkpoint_stall_seconds: Annotated[float, Ge(0)] | None = None
    """How long a checkpoint held training up, the mean."""

    workers: LongCount | None = None
    """The processes that read at the same time."""


def carried(
    training: TrainingStatus, sample: Sample | None, global_batch_size: int
) -> TrainingStatus:
    """Return the attempt's status with the figures of a sample of the same attempt.

    A figure that lasts keeps its value if the sample lacks it; any other is removed.

    Args:
        training: The attempt.
        sample: The newest, of any attempt.
        global_batch_size: Images of one step over all workers, which take a step together.
    """
    if sample is None or sample.attempt != training.attempt:
        return training
    new = {**_lasting(training), **sample.figures}
    remaining = remaining_seconds(sample, global_batch_size)
    if remaining is not None:
        new[REMAINING] = remaining
    found = figures.with_values(training, new)
    return found.model_copy(
        update={
            "last_progress_time": sample.progressed_at,
            "rank0_pod": sample.rank0_pod or None,
            "finished_epochs": columns.finished_epochs(found, sample.epochs),
            "eta": columns.eta(found.estimated_remaining_seconds),
        }
    )


def remaining_seconds(sample: Sample, global_batch_size: int) -> int | None:
    """Return the seconds that the remaining batches take at the sample's speed; None if unknown.

    Args:
        sample: Epoch and batch, how many there are of each, and the speed of all workers.
        global_batch_size: Images of one step over all workers.
    """
    epoch, speed = sample.epoch, sample.figures.get(SPEED)
    if epoch is None or sample.epochs is None or not sample.batches_per_epoch or not speed:
        return None
    if not global_batch_size:
        return None  # a stored spec may hold a value that this version does not accept
    done = epoch * sample.batches_per_epoch + (sample.batch or 0)
    left = max(0, sample.epochs * sample.batches_per_epoch - done)
    seconds = left * global_batch_size / speed
    return round(seconds) if seconds <= COUNT_MAXIMUM else None


def stilled(training: TrainingStatus) -> TrainingStatus:
    """Return the status of an attempt that has ended: only with the figures that last."""
    still = figures.with_values(training, _lasting(training))
    return still.model_copy(update={"eta": None, "stragglers": None})


def final(training: TrainingStatus) -> TrainingStatus:
    """Return the status of an attempt that has succeeded, with what rank 0 says of its model."""
    results = {member.name: result_of(member) for member in training.members}
    found = {name: message for name, message in results.items() if message is not None}
    if not found:
        return training
    new, (name, first) = _lasting(training), next(iter(found.items()))
    # The model keeps the last steps.
    new.pop("unsaved_seconds", None)
    if first.epochs is not None:
        new[EPOCH] = max(first.epochs - 1, 0)
        if training.expects_result:
            # imagenet-train writes a checkpoint after the last epoch, whatever the interval.
            new[CHECKPOINT] = first.epochs
    if first.top1 is not None:
        new[VALIDATION] = first.top1
    if first.loop_cpu_seconds is not None:
        new[LOOP_CPU] = first.loop_cpu_seconds
    if first.checkpoint_stall_seconds is not None:
        new[CHECKPOINT_STALL] = first.checkpoint_stall_seconds
    speed = (
        _reading_speed(list(found.values())) if first.event == "read" else first.images_per_second
    )
    if speed is not None:
        new[SPEED] = speed
    final_figures = figures.with_values(training, new)
    if first.epochs is None:
        return final_figures
    last = {"finished_epochs": f"{first.epochs}/{first.epochs}", "rank0_pod": name}
    return final_figures.model_copy(update=last)


def leaves_model(training: TrainingStatus) -> bool:
    """Whether an attempt that has succeeded ran imagenet-train to the end of its epochs."""
    results = filter(None, map(result_of, training.members))
    return training.expects_result and any(result.epochs is not None for result in results)


def _reading_speed(found: Sequence[TerminationMessage]) -> float | None:
    """Return the images per second of all processes, of which some have left a message."""
    speeds = [message.images_per_second for message in found if message.images_per_second]
    return sum(speeds) / len(speeds) * (found[0].workers or 1) if speeds else None


def _lasting(training: TrainingStatus) -> dict[str, float]:
    """Return the figures of a status that stay when no sample has them."""
    found = figures.values(training)
    return {item.field: found[item.field] for item in FIGURES if item.lasts and item.field in found}


def result_of(member: MemberStatus) -> TerminationMessage | None:
    """Return the result in a worker's termination message; None if it has another content."""
    if member.role != "worker" or member.phase != "Succeeded":
        return None
    return result_in(member.message)


def result_in(text: str | None) -> TerminationMessage | None:
    """Return the result in a termination message; None if it has another content."""
    if not text:
        return None
    try:
        message = TerminationMessage.model_validate_json(text)
    except ValidationError:
        return None
    return None if message.event == "finished" and message.epochs is None else message


def is_worth_a_write(old: Status, new: Status) -> bool:
    """Return whether a new status has a change worth a write.

    Every write is a request to the API server and an event for every watch. So figures that move
    with every sample are written only with another change, or when they moved visibly.
    """
    if _without_figures(old) != _without_figures(new):
        return True
    if old.training is None or new.training is None:
        return False
    return _moved_visibly(old.training, new.training)


def _without_figures(status: Status) -> Status:
    if status.dataset is not None:
        bytes_apart = {"fetch": fetch.without_figures(status.dataset.fetch)}
        dataset = status.dataset.model_copy(update=bytes_apart)
        status = status.model_copy(update={"dataset": dataset})
    if status.time is not None:
        # Time that passes is not worth a write; a new phase is.
        status = status.model_copy(update={"time": TimeStatus(phase=status.time.phase)})
    if status.training is None:
        return status
    bare = figures.with_values(status.training, {})
    others = dict.fromkeys(("last_progress_time", "finished_epochs", "eta", "seconds", "data_wait"))
    training = bare.model_copy(update=others)
    return status.model_copy(update={"training": training})


def _moved_visibly(old: TrainingStatus, new: TrainingStatus) -> bool:
    # The first answer of an attempt: from then on, silence counts as a hang.
    if old.last_progress_time is None and new.last_progress_time is not None:
        return True
    if columns.are_worth_a_write(old, new):
        return True
    if data_wait.is_worth_a_write(old.data_wait, new.data_wait):
        return True
    return figures.is_worth_a_write(figures.values(old), figures.values(new))

"""What users see of a job: the conditions, the phase, the figures and columns of its status.

The newest sample's values are carried into the status for `kubectl get`; `figures` has the way of
each. Epochs and remaining time stand there in words as well, since a column only shows a field as
it is. The final values of an attempt come from the termination message of rank 0, because no sample
follows it. The last function judges whether all this is worth a write.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from annotated_types import Ge, MaxLen
from pydantic import ConfigDict, ValidationError

from imagenet_operator.manifests import names, volumes
from imagenet_operator.reconcile.policies import data_wait, reading
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import QUEUED
from imagenet_spec.events import Finished
from imagenet_spec.resource import ImageNetJob, figures
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.fields import COUNT_MAXIMUM, Fraction, LongCount, Sha256, Speed
from imagenet_spec.resource.figures import (
    CHECKPOINT,
    CHECKPOINT_STALL,
    EPOCH,
    FIGURES,
    LOOP_CPU,
    REMAINING,
    SPEED,
    VALIDATION,
)
from imagenet_spec.resource.status import (
    Condition,
    ConditionType,
    MemberStatus,
    ModelStatus,
    Phase,
    Status,
    TrainingStatus,
)
from imagenet_spec.resource.time_status import TimeStatus

MESSAGE_MAXIMUM = 4096
"""Characters of a message that are kept: enough for a termination message."""

EARLY_STOPPED: Final = "EarlyStopped"
"""The reason of Succeeded if training ended before its last epoch."""

_NUMBER = re.compile("[0-9]+")

_AT_REST: tuple[tuple[ConditionType, Phase], ...] = (
    ("Failed", "Failed"),
    ("Succeeded", "Succeeded"),
    ("Suspended", "Suspended"),
)
_AT_WORK: tuple[tuple[ConditionType, Phase], ...] = (
    ("Running", "Running"),
    ("Restarting", "Restarting"),
    ("DatasetReady", "Starting"),
)
"""The first condition that is True decides the phase, of a job at rest before others. A queue may
hold back a job that does not run."""

_INIT_FROM: Final = "checkpoint.initFrom"

WRITE_INTERVAL: Final = timedelta(minutes=1)
"""The shortest time between two writes of the status for the epochs and remaining time in words,
which change with every sample."""

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def find(conditions: Sequence[Condition], kind: ConditionType) -> Condition | None:
    """Return the condition of a type, if it was ever set."""
    return next((condition for condition in conditions if condition.type == kind), None)


def holds(conditions: Sequence[Condition], kind: ConditionType) -> bool:
    """Return whether the condition of a type is set and True."""
    found = find(conditions, kind)
    return found is not None and found.status == "True"


def reason_of(conditions: Sequence[Condition], kind: ConditionType) -> str:
    """Return the reason of the condition of a type; empty if it was never set."""
    found = find(conditions, kind)
    return "" if found is None else found.reason


def message_of(conditions: Sequence[Condition], kind: ConditionType) -> str:
    """Return the message of the condition of a type; empty if it was never set."""
    found = find(conditions, kind)
    return "" if found is None else found.message


def equal_without_numbers(message: str, former: str) -> bool:
    """Whether two messages are equal but for numbers; such a change is not worth a write."""
    return _NUMBER.sub("", message) == _NUMBER.sub("", former)


def phase(status: Status, suspends: bool) -> Phase:
    """Return the phase that follows from the conditions and the preparation's clock.

    A job that `suspends` is Suspending while it has pods.
    """
    for kind, found in _AT_REST:
        if holds(status.conditions, kind):
            return found
    if suspends:
        return "Suspending"
    if is_queued(status):
        return "Queued"
    for kind, found in _AT_WORK:
        if holds(status.conditions, kind):
            return found
    return "Created" if status.preparation is None else "Preparing"


def is_queued(status: Status) -> bool:
    """Whether a queue holds back the next step of a job: its preparation, or its attempt."""
    condition = find(status.conditions, awaited(status))
    return condition is not None and (condition.status, condition.reason) == ("False", QUEUED)


def awaited(status: Status) -> ConditionType:
    """Return the type of the condition that says what an unfinished job waits for."""
    return "Running" if holds(status.conditions, "DatasetReady") else "DatasetReady"


def reason(status: Status) -> str | None:
    """Return the reason of the condition that explains the phase; None before the first one."""
    kinds: list[ConditionType] = [kind for kind, _ in _AT_REST if holds(status.conditions, kind)]
    for kind in kinds or (awaited(status), "DatasetReady", "Created"):
        if (found := find(status.conditions, kind)) is not None:
            return found.reason
    return None


def put(
    conditions: Sequence[Condition],
    kind: ConditionType,
    value: bool,
    reason: str,
    message: str,
    *,
    now: datetime,
    generation: int,
) -> tuple[Condition, ...]:
    """Return the conditions with one of them set, in their order; a new one comes last.

    `now` is the transition time, if the status changes.
    """
    former = find(conditions, kind)
    changed = Condition(
        type=kind,
        status="True" if value else "False",
        reason=reason,
        message=_cut(message, MESSAGE_MAXIMUM),
        last_transition_time=now,
        observed_generation=generation,
    )
    if former is not None and former.status == changed.status:
        if (former.reason, former.message) == (changed.reason, changed.message):
            return tuple(conditions)
        since = former.last_transition_time
        changed = changed.model_copy(update={"last_transition_time": since})
    if former is None:
        return (*conditions, changed)
    return tuple(changed if item.type == kind else item for item in conditions)


def checkpoint_advice(job: ImageNetJob, training: TrainingStatus | None) -> str:
    """Return a sentence about the newest checkpoint; empty if none is known."""
    claim = volumes.output_claim(job)
    if training is None or training.checkpoint_epoch is None or claim is None:
        return ""
    folder = names.output_folder(job.metadata.name, job.metadata.uid)
    epochs = training.checkpoint_epoch
    when = f"after {epochs} epoch{'' if epochs == 1 else 's'}" if epochs else "in the first epoch"
    return (
        f"the newest checkpoint that the operator knows of, {when}, is"
        f" in {folder} of the claim {claim}; a new job with this claim goes on with"
        f" spec.training.{_INIT_FROM}: {folder}"
    )


def with_advice(message: str, sentence: str, maximum: int) -> str:
    """Return a message of at most `maximum` characters with the advice, of which nothing is cut.

    Nothing is added if the sentence is empty or the message has its own.
    """
    if not sentence or _INIT_FROM in message:
        return message
    room = maximum - len(sentence) - 2
    return f"{_cut(message, room)}; {sentence}"


def _cut(message: str, maximum: int) -> str:
    return message if len(message) <= maximum else f"{message[: maximum - 1]}…"


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
    """The median CPU time of a step of rank 0 outside the framework's calls."""

    checkpoint_stall_seconds: Annotated[float, Ge(0)] | None = None
    """How long a checkpoint held training up, the mean."""

    workers: LongCount | None = None
    """The processes that read at the same time."""

    planned_epochs: LongCount | None = None
    """How many were planned, if early stopping ended the training before them."""

    stopped_metric: Annotated[str, MaxLen(64)] | None = None
    """The figure of the validation that no longer improved."""

    stopped_value: float | None = None
    """Its last value that was an improvement; None if it was never a number."""

    stopped_epoch: LongCount | None = None
    """The epoch of that value, from 1."""

    result_sha256: Sha256 | None = None
    """The hex SHA-256 of result.json; None of an earlier release."""


def with_sample(
    training: TrainingStatus, sample: Sample | None, global_batch_size: int
) -> TrainingStatus:
    """Return the attempt's status with the figures of a sample, which may be of another attempt.

    A figure that lasts keeps its value if the sample lacks it; any other is removed.
    `global_batch_size` is the images of one step over all workers.
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
            "finished_epochs": finished_epochs(found, sample.epochs),
            "eta": eta(found.estimated_remaining_seconds),
        }
    )


def finished_epochs(training: TrainingStatus, epochs: int | None) -> str | None:
    """Return the finished epochs and all epochs; the former text if a number is not known."""
    if training.epoch is None or epochs is None:
        return training.finished_epochs
    return f"{training.epoch}/{epochs}"


def eta(seconds: int | None) -> str | None:
    """Return a remaining time, rounded to what its length makes plausible; None if unknown."""
    if seconds is None:
        return None
    if seconds < _MINUTE:
        return "<1m"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 10 * _HOUR:
        hours, minutes = divmod(seconds // (10 * _MINUTE) * 10, 60)
        return f"{hours}h{minutes:02}m"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    days, hours = divmod(seconds // _HOUR, 24)
    return f"{days}d" if days >= 10 else f"{days}d{hours}h"


def remaining_seconds(sample: Sample, global_batch_size: int) -> int | None:
    """Return the seconds that the remaining batches take at the sample's speed; None if unknown."""
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


def with_result(training: TrainingStatus) -> TrainingStatus:
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
    speed = first.images_per_second
    if first.event == "read":
        # Of all processes, of which some have left a message.
        speeds = [item.images_per_second for item in found.values() if item.images_per_second]
        speed = sum(speeds) / len(speeds) * (first.workers or 1) if speeds else None
    measured = {
        VALIDATION: first.top1,
        LOOP_CPU: first.loop_cpu_seconds,
        CHECKPOINT_STALL: first.checkpoint_stall_seconds,
        SPEED: speed,
    }
    new |= {name: value for name, value in measured.items() if value is not None}
    final_figures = figures.with_values(training, new)
    if first.epochs is None:
        return final_figures
    planned = first.planned_epochs or first.epochs
    last = {"finished_epochs": f"{first.epochs}/{planned}", "rank0_pod": name}
    return final_figures.model_copy(update=last)


def early_stop(training: TrainingStatus) -> str | None:
    """Return why training ended before its last epoch, in words; None if it did not."""
    results = filter(None, map(result_of, training.members))
    if not training.expects_result or (result := next(results, None)) is None:
        return None
    return Finished(
        result.epochs or 0,
        planned_epochs=result.planned_epochs,
        stopped_metric=result.stopped_metric,
        stopped_value=result.stopped_value,
        stopped_epoch=result.stopped_epoch,
    ).early_stop


def trained_model(job: ImageNetJob, training: TrainingStatus) -> ModelStatus | None:
    """Return the place of the model of an attempt that has succeeded.

    None if the attempt did not run imagenet-train to the end of its epochs.
    """
    results = [result for member in training.members if (result := result_of(member)) is not None]
    claim, metadata = volumes.output_claim(job), job.metadata
    trained = next((result for result in results if result.epochs is not None), None)
    if claim is None or trained is None or not training.expects_result:
        return None
    return ModelStatus(
        claim_name=claim,
        path=names.attempt_folder(metadata.name, metadata.uid, training.attempt),
        framework=job.spec.training.framework,
        sha256=trained.result_sha256,
    )


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
    before, after = old.training, new.training
    if before is None or after is None:
        return False
    # The first answer of an attempt: from then on, silence counts as a hang.
    heard_before, heard = before.last_progress_time, after.last_progress_time
    if heard_before is None and heard is not None:
        return True
    if (before.finished_epochs, before.eta) != (after.finished_epochs, after.eta) and (
        heard_before is None or heard is None or heard - heard_before >= WRITE_INTERVAL
    ):
        return True
    if data_wait.is_worth_a_write(before.data_wait, after.data_wait):
        return True
    return figures.is_worth_a_write(figures.values(before), figures.values(after))


def _without_figures(status: Status) -> Status:
    if status.dataset is not None:
        bytes_apart = {"fetch": reading.without_figures(status.dataset.fetch)}
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

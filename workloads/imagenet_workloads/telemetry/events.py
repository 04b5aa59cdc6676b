"""The events of an attempt: the lines of metrics.jsonl, and their readable text.

`log` writes them, and `imagenet-plot` reads them. A line is one JSON object: `time` (seconds since
1970), `event` (the kind) and the fields of one class below in camelCase, without those that are
None. Readers ignore unknown kinds and fields, so both may be added.

Epochs are numbered from 0 in the lines, and from 1 in the texts, as on every screen.
"""

import dataclasses
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagenet_spec.names import camel_case
from imagenet_workloads.errors import InputError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Started:
    """An attempt starts to train.

    Attributes:
        attempt: the N of attempts/rN.
        workers: The number of workers.
        epoch: The first epoch, from 0.
        batch: The finished batches of that epoch.
        resumed_from: The checkpoint's folder; None at the beginning.
        batches_per_epoch: The batches of an epoch.
        training: The identity of the training, which its attempts share.
    """

    attempt: int
    workers: int
    epoch: int
    batch: int
    resumed_from: str | None = None
    batches_per_epoch: int | None = None
    training: str | None = None

    def sentence(self) -> str:
        """The event as one line for a person."""
        origin = f"resumes from {self.resumed_from}" if self.resumed_from else "starts"
        return (
            f"attempt {self.attempt} {origin} at epoch {self.epoch + 1} batch {self.batch}"
            f" with {self.workers} worker{'' if self.workers == 1 else 's'}"
        )


@dataclass(frozen=True)
class Progress:
    """A display interval ends.

    Attributes:
        epoch: The current epoch, from 0.
        batch: The finished batches of it.
        images_per_second: The speed of this worker over the interval.
        loss: The mean over the epoch's training images so far, in nats.
        top1: accuracy over the same, 0..1.
        top5: likewise.
        learning_rate: The optimizer's learning rate.
    """

    epoch: int
    batch: int
    images_per_second: float
    loss: float | None = None
    top1: float | None = None
    top5: float | None = None
    learning_rate: float | None = None

    def sentence(self) -> str:
        """The event as one line for a person."""
        return (
            f"epoch {self.epoch + 1} batch {self.batch}: {self.images_per_second:.1f} images/s"
            + _figures(loss=self.loss, top1=self.top1, top5=self.top5, lr=self.learning_rate)
        )


@dataclass(frozen=True)
class EpochFinished:
    """An epoch ends.

    Attributes:
        epoch: The epoch, from 0.
        seconds: Its duration.
        images_per_second: The speed over the epoch, summed over the workers.
        loss: The mean over its training images, in nats.
        top1: accuracy over the same, 0..1.
        top5: likewise.
    """

    epoch: int
    seconds: float
    images_per_second: float
    loss: float | None = None
    top1: float | None = None
    top5: float | None = None

    def sentence(self) -> str:
        """The event as one line for a person."""
        return (
            f"epoch {self.epoch + 1} done in {self.seconds:.1f} s: "
            f"{self.images_per_second:.1f} images/s"
            + _figures(loss=self.loss, top1=self.top1, top5=self.top5)
        )


@dataclass(frozen=True)
class Validated:
    """The validation after an epoch ends.

    Attributes:
        epoch: The finished epoch, from 0.
        images: The number of images over all workers.
        top1: The accuracy, 0..1.
        top5: likewise.
        loss: The mean, in nats.
    """

    epoch: int
    images: int
    top1: float
    top5: float | None = None
    loss: float | None = None

    def sentence(self) -> str:
        """The event as one line for a person."""
        return f"epoch {self.epoch + 1} validated on {self.images} images" + _figures(
            loss=self.loss, top1=self.top1, top5=self.top5
        )


@dataclass(frozen=True)
class CheckpointWritten:
    """A checkpoint is complete.

    Attributes:
        epoch: The finished epochs.
        batch: The finished batches of the next epoch.
        folder: The name of its folder.
        seconds: From its copy between two steps until it was complete.
    """

    epoch: int
    batch: int
    folder: str
    seconds: float

    def sentence(self) -> str:
        """The event as one line for a person."""
        return f"checkpoint {self.folder} written in {self.seconds:.1f} s"


@dataclass(frozen=True)
class Finished:
    """The training is complete, and its model is written.

    Attributes:
        epochs: The planned number of epochs.
        top1: The accuracy of the last validation, 0..1; None without validation images.
        top5: likewise.
        images_per_second: The speed of this attempt, summed over the workers; None if it trained no
            image.
        seconds: The time of rank 0 by phase.
        loop_cpu_seconds: The median CPU time of a step of rank 0, outside the framework's calls;
            None if it trained no image.
        checkpoint_stall_seconds: How long a checkpoint held training up, the mean; None without
            one.
    """

    epochs: int
    top1: float | None = None
    top5: float | None = None
    images_per_second: float | None = None
    seconds: dict[str, float] | None = None
    loop_cpu_seconds: float | None = None
    checkpoint_stall_seconds: float | None = None

    def sentence(self) -> str:
        """The event as one line for a person."""
        speed = self.images_per_second
        return (
            f"training of {self.epochs} epochs is done"
            + ("" if speed is None else f": {speed:.1f} images/s")
            + _figures(top1=self.top1, top5=self.top5)
        )


@dataclass(frozen=True)
class Read:
    """The images are read, without training: the result of `--test-io`.

    Attributes:
        images: The images that this process has read.
        workers: The processes that read at the same time.
        images_per_second: The speed of this process.
    """

    images: int
    workers: int
    images_per_second: float

    def sentence(self) -> str:
        """The event as one line for a person."""
        return f"read {self.images} images: {self.images_per_second:.1f} images/s"


Event = Started | Progress | EpochFinished | Validated | CheckpointWritten | Finished | Read

_KINDS: dict[str, type[Event]] = {
    "started": Started,
    "progress": Progress,
    "epoch": EpochFinished,
    "validation": Validated,
    "checkpoint": CheckpointWritten,
    "finished": Finished,
    "read": Read,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_line(event: Event, time: float) -> str:
    """Return the line of metrics.jsonl, without newline; `time` is in seconds since 1970."""
    document: dict[str, Any] = {"time": round(time, 3), "event": _NAMES[type(event)]}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if value is not None:
            document[camel_case(field.name)] = value
    return json.dumps(document, ensure_ascii=False)


def from_line(line: str) -> tuple[float, Event] | None:
    """Parse a line, with its time; None for an unknown kind.

    Raises:
        ValueError: It is not a JSON object, or a field is missing or of another type.
    """
    document = json.loads(line)
    if not isinstance(document, dict):
        raise ValueError("must be a JSON object")
    kind = _KINDS.get(str(document.get("event")))
    if kind is None:
        return None
    known = {camel_case(field.name): field for field in dataclasses.fields(kind)}
    try:
        values = {
            field.name: _checked(field, document[name])
            for name, field in known.items()
            if name in document
        }
        return float(document["time"]), kind(**values)
    except (KeyError, TypeError) as error:
        raise ValueError(f"is not a {document['event']} event: {error}") from error


def read_events(path: Path) -> Iterator[tuple[float, Event]]:
    """Return the events of a metrics.jsonl with their times, in order.

    Invalid lines, such as one that was truncated by a crash, are ignored with a warning in the log.

    Raises:
        InputError: The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            continue
        try:
            found = from_line(line)
        except ValueError as error:
            _log.warning("%s:%d is ignored: %s", path, number, error)
            continue
        if found is not None:
            yield found


def _checked(field: "dataclasses.Field[Any]", value: object) -> Any:
    """Return the value if its JSON type fits the field's annotation.

    That is a text, a number or numbers by name, or None.
    """
    if "dict" in str(field.type):
        wanted: tuple[type, ...] = (dict,)
    else:
        wanted = (str,) if "str" in str(field.type) else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise TypeError(f"{field.name} is {value!r}")
    return value


def _figures(**values: float | None) -> str:
    known = {name: value for name, value in values.items() if value is not None}
    return "".join(
        f", {name} {value:.6g}" if name == "lr" else f", {name} {value:.4f}"
        for name, value in known.items()
    )

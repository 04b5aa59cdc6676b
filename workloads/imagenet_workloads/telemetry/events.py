"""The events of a training attempt: the lines of metrics.jsonl, and their readable sentences.

`log` writes them, `imagenet-plot` reads them back. A line is one JSON object: `time` (seconds
since 1970), `event` (the kind) and the fields of one class below in camelCase; a field that is
None is left out. Readers pass over kinds and fields that they do not know, so both may grow.
"""

import dataclasses
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagenet_workloads.errors import InputError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Started:
    """An attempt begins to train.

    Attributes:
        attempt: the N of attempts/rN.
        workers: of the attempt.
        epoch: the first that it runs, from 0.
        batch: the batches of that epoch that are done already.
        resumed_from: the checkpoint's folder; None from the beginning.
    """

    attempt: int
    workers: int
    epoch: int
    batch: int
    resumed_from: str | None = None

    def sentence(self) -> str:
        """The event as one line for a person."""
        origin = f"resumes from {self.resumed_from}" if self.resumed_from else "starts"
        return (
            f"attempt {self.attempt} {origin} at epoch {self.epoch} batch {self.batch}"
            f" with {self.workers} worker{'' if self.workers == 1 else 's'}"
        )


@dataclass(frozen=True)
class Progress:
    """A display interval ends.

    Attributes:
        epoch: in progress, from 0.
        batch: batches done in it.
        images_per_second: of this worker over the interval.
        loss: mean over the epoch's training images so far, nats.
        top1: accuracy over the same, 0..1.
        top5: likewise.
        learning_rate: the optimizer's.
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
            f"epoch {self.epoch} batch {self.batch}: {self.images_per_second:.1f} images/s"
            + _figures(loss=self.loss, top1=self.top1, top5=self.top5, lr=self.learning_rate)
        )


@dataclass(frozen=True)
class EpochFinished:
    """All batches of an epoch are done.

    Attributes:
        epoch: which, from 0.
        seconds: that it took.
        images_per_second: over the whole epoch, summed over the workers.
        loss: mean over its training images, nats.
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
            f"epoch {self.epoch} done in {self.seconds:.1f} s: "
            f"{self.images_per_second:.1f} images/s"
            + _figures(loss=self.loss, top1=self.top1, top5=self.top5)
        )


@dataclass(frozen=True)
class Validated:
    """All validation images were classified after an epoch.

    Attributes:
        epoch: the finished one, from 0.
        images: counted over all workers.
        top1: accuracy, 0..1.
        top5: likewise.
        loss: mean, nats.
    """

    epoch: int
    images: int
    top1: float
    top5: float | None = None
    loss: float | None = None

    def sentence(self) -> str:
        """The event as one line for a person."""
        return f"epoch {self.epoch} validated on {self.images} images" + _figures(
            loss=self.loss, top1=self.top1, top5=self.top5
        )


@dataclass(frozen=True)
class CheckpointWritten:
    """A checkpoint is complete.

    Attributes:
        epoch: its position: epochs done, from 0.
        batch: and batches done in the next.
        folder: its name.
        seconds: that writing it took.
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
    """The training is over and its model is written.

    Attributes:
        epochs: that were planned.
        top1: of the last validation, 0..1; None without validation images.
        top5: likewise.
        images_per_second: of this attempt's training, summed over the workers; None where it had
            nothing left to train.
    """

    epochs: int
    top1: float | None = None
    top5: float | None = None
    images_per_second: float | None = None

    def sentence(self) -> str:
        """The event as one line for a person."""
        speed = self.images_per_second
        return (
            f"training of {self.epochs} epochs is done"
            + ("" if speed is None else f": {speed:.1f} images/s")
            + _figures(top1=self.top1, top5=self.top5)
        )


Event = Started | Progress | EpochFinished | Validated | CheckpointWritten | Finished

_KINDS: dict[str, type[Event]] = {
    "started": Started,
    "progress": Progress,
    "epoch": EpochFinished,
    "validation": Validated,
    "checkpoint": CheckpointWritten,
    "finished": Finished,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_line(event: Event, time: float) -> str:
    """The event's line in metrics.jsonl, without the newline; `time` in seconds since 1970."""
    document: dict[str, Any] = {"time": round(time, 3), "event": _NAMES[type(event)]}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if value is not None:
            document[_camel_case(field.name)] = value
    return json.dumps(document, ensure_ascii=False)


def from_line(line: str) -> tuple[float, Event] | None:
    """Reads a line back, with its time; None for a kind that this version does not know.

    Raises:
        ValueError: not a JSON object, or a field of its kind is missing or of another type.
    """
    document = json.loads(line)
    if not isinstance(document, dict):
        raise ValueError("must be a JSON object")
    kind = _KINDS.get(str(document.get("event")))
    if kind is None:
        return None
    known = {_camel_case(field.name): field for field in dataclasses.fields(kind)}
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
    """The events of a metrics.jsonl with their times, in order.

    Lines that are no event, such as one cut off by the death of its writer, are passed over with
    a warning in the log.

    Raises:
        InputError: the file cannot be read.
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
            _log.warning("%s:%d is passed over: %s", path, number, error)
            continue
        if found is not None:
            yield found


def _checked(field: "dataclasses.Field[Any]", value: object) -> Any:
    """The value, if its JSON type fits the field's annotation (str, int, float, or None)."""
    wanted = (str,) if "str" in str(field.type) else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise TypeError(f"{field.name} is {value!r}")
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _figures(**values: float | None) -> str:
    known = {name: value for name, value in values.items() if value is not None}
    return "".join(f", {name} {_short(name, value)}" for name, value in known.items())


def _short(name: str, value: float) -> str:
    return f"{value:.6g}" if name == "lr" else f"{value:.4f}"

"""The events of an attempt: the lines of metrics.jsonl, their readable text, and their runs.

A line is one JSON object: `time` (seconds since 1970), `event` (the kind) and the fields of one
class below in camelCase, without those that are None. Readers ignore unknown kinds and fields, so
both may be added. Epochs are numbered from 0 in the lines, and from 1 in the texts, as on every
screen.

Rank 0 of a training appends them. Plots, pages and tables draw the runs of all attempts. Each
`started` event begins a run, because attempt 0 may run twice without an operator.
"""

import dataclasses
import json
import logging
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imagenet_spec import volume_files
from imagenet_spec.names import ATTEMPTS_FOLDER, EVENTS_FILE, EVERY_ATTEMPT, MODEL_LINK, camel_case

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Started:
    """An attempt starts to train.

    Attributes:
        attempt: the N of attempts/rN.
        batch: The finished batches of `epoch`.
        resumed_from: The checkpoint's folder.
        training: The identity of the training, which its attempts share.
        parameters: The values of the options that decide what is trained, by option.
    """

    attempt: int
    workers: int
    epoch: int
    batch: int
    resumed_from: str | None = None
    batches_per_epoch: int | None = None
    training: str | None = None
    images_per_epoch: int | None = None
    dataset_key: str | None = None
    parameters: dict[str, str] | None = None

    def sentence(self) -> str:
        origin = f"resumes from {self.resumed_from}" if self.resumed_from else "starts"
        return (
            f"attempt {self.attempt} {origin} at epoch {self.epoch + 1} batch {self.batch}"
            f" with {self.workers} worker{'' if self.workers == 1 else 's'}"
        )


@dataclass(frozen=True)
class Progress:
    """A display interval ends.

    Attributes:
        batch: The finished batches of `epoch`.
        images_per_second: The speed of this worker over the interval.
        loss: The mean over the epoch's training images so far, in nats.
        top1: accuracy over the same, 0..1; top5 likewise.
    """

    epoch: int
    batch: int
    images_per_second: float
    loss: float | None = None
    top1: float | None = None
    top5: float | None = None
    learning_rate: float | None = None

    def sentence(self) -> str:
        return (
            f"epoch {self.epoch + 1} batch {self.batch}: {self.images_per_second:.1f} images/s"
            + _figures(loss=self.loss, top1=self.top1, top5=self.top5, lr=self.learning_rate)
        )


@dataclass(frozen=True)
class EpochFinished:
    """An epoch ends.

    Attributes:
        images_per_second: The speed over the epoch, summed over the workers.
        loss: The mean over its training images, in nats.
        top1: accuracy over the same, 0..1; top5 likewise.
    """

    epoch: int
    seconds: float
    images_per_second: float
    loss: float | None = None
    top1: float | None = None
    top5: float | None = None

    def sentence(self) -> str:
        return (
            f"epoch {self.epoch + 1} done in {self.seconds:.1f} s: "
            f"{self.images_per_second:.1f} images/s"
            + _figures(loss=self.loss, top1=self.top1, top5=self.top5)
        )


@dataclass(frozen=True)
class Validated:
    """The validation after an epoch ends.

    Attributes:
        images: over all workers.
        top1: The accuracy, 0..1; top5 likewise.
        loss: The mean, in nats.
    """

    epoch: int
    images: int
    top1: float
    top5: float | None = None
    loss: float | None = None

    def sentence(self) -> str:
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
        return f"checkpoint {self.folder} written in {self.seconds:.1f} s"


@dataclass(frozen=True)
class Finished:
    """The training is complete, and its model is written.

    Attributes:
        epochs: The trained epochs: all that were planned, or fewer after early stopping.
        top1: The accuracy of the model's validation, 0..1; None without validation images.
        images_per_second: The speed of this attempt, summed over the workers; None if it trained no
            image.
        seconds: The time of rank 0 by phase.
        loop_cpu_seconds: The median CPU time of a step of rank 0, outside the framework's calls;
            None if it trained no image.
        checkpoint_stall_seconds: How long a checkpoint held training up, the mean; None without
            one.
        model_epoch: The epoch of the model, from 1, if the best one was asked for.
        planned_epochs: The epochs of the plan, if early stopping ended the training before them;
            otherwise None, as the following three.
        stopped_metric: The figure of the validation that no longer improved.
        stopped_value: Its last value that was an improvement; None if no value was a number.
        stopped_epoch: The epoch of that value, from 1.
        result_sha256: The hex SHA-256 of result.json; None of an earlier release.
    """

    epochs: int
    top1: float | None = None
    top5: float | None = None
    images_per_second: float | None = None
    seconds: dict[str, float] | None = None
    loop_cpu_seconds: float | None = None
    checkpoint_stall_seconds: float | None = None
    model_epoch: int | None = None
    planned_epochs: int | None = None
    stopped_metric: str | None = None
    stopped_value: float | None = None
    stopped_epoch: int | None = None
    result_sha256: str | None = None

    @property
    def early_stop(self) -> str | None:
        """Why training ended before the last epoch, in words; None if it did not."""
        if self.planned_epochs is None:
            return None
        since = (
            "was never a number"
            if self.stopped_value is None
            else f"has not improved since epoch {self.stopped_epoch} ({self.stopped_value:.4f})"
        )
        return (
            f"early stopping after epoch {self.epochs} of {self.planned_epochs}: validation "
            f"{self.stopped_metric} {since}"
        )

    def sentence(self) -> str:
        speed, model = self.images_per_second, self.model_epoch
        return (
            f"training of {self.epochs} epochs is done"
            + ("" if speed is None else f": {speed:.1f} images/s")
            + ("" if model is None else f", the model is that of epoch {model}")
            + _figures(top1=self.top1, top5=self.top5)
            + ("" if self.early_stop is None else f"; {self.early_stop}")
        )


@dataclass(frozen=True)
class Read:
    """The images are read, without training: the result of `--test-io`.

    Images and their speed are those of this process; so many `workers` read at the same time.
    """

    images: int
    workers: int
    images_per_second: float

    def sentence(self) -> str:
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
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"
"""A line of the log of a program; of an event, the message is its sentence."""

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_FIGURES = "".join(
    rf"(?:, {short} (?P<{name}>{_NUMBER}))?"
    for short, name in {
        "loss": "loss",
        "top1": "top1",
        "top5": "top5",
        "lr": "learning_rate",
    }.items()
)
_SPEED = rf"(?P<images_per_second>{_NUMBER}) images/s"
_SENTENCES: dict[type[Event], str] = {
    Started: r"attempt (?P<attempt>\d+) (?:starts|resumes from (?P<resumed_from>.+)) "
    r"at epoch (?P<epoch>\d+) batch (?P<batch>\d+) with (?P<workers>\d+) workers?",
    Progress: rf"epoch (?P<epoch>\d+) batch (?P<batch>\d+): {_SPEED}{_FIGURES}",
    EpochFinished: rf"epoch (?P<epoch>\d+) done in (?P<seconds>{_NUMBER}) s: {_SPEED}{_FIGURES}",
    Validated: rf"epoch (?P<epoch>\d+) validated on (?P<images>\d+) images{_FIGURES}",
}
_YEAR_10000 = 253402300800.0
# Those of a number of 64 bits, and a sign.
_DIGITS = 20


def to_line(event: Event, time: float) -> str:
    """Return the line of metrics.jsonl, without newline; `time` is in seconds since 1970."""
    document: dict[str, Any] = {"time": round(time, 3), "event": _NAMES[type(event)]}
    for one in dataclasses.fields(event):
        value = getattr(event, one.name)
        if value is not None:
            document[camel_case(one.name)] = value
    return json.dumps(document, ensure_ascii=False)


def from_line(line: str) -> tuple[float, Event] | None:
    """Parse a line, with its time; None for an unknown kind.

    Raises:
        ValueError: It is not a JSON object, or a field is missing or of another type.
    """
    try:
        document = json.loads(line, parse_constant=_finite, parse_float=_finite, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("must be a JSON object")
    kind = _KINDS.get(str(document.get("event")))
    if kind is None:
        return None
    known = {camel_case(one.name): one for one in dataclasses.fields(kind)}
    try:
        values = {
            one.name: _checked(one, document[name])
            for name, one in known.items()
            if name in document
        }
        time = float(document["time"])
        if not 0 <= time < _YEAR_10000:
            raise ValueError(f"time is {time:g}")
        return time, kind(**values)
    except (KeyError, TypeError) as error:
        raise ValueError(f"is not a {document['event']} event: {error}") from error


def from_log_line(line: str) -> Event | None:
    """Parse a line of the log of rank 0, whose figures are rounded.

    None for one that is not of the start of an attempt, an interval, an epoch or a validation.
    """
    sentence = line.split(" ", LOG_FORMAT.count(" ") + 1)[-1]
    for kind, form in _SENTENCES.items():
        if found := re.fullmatch(form, sentence):
            values: dict[str, Any] = {
                # JSON's reader takes the float -0 for an integer.
                name: text if name == "resumed_from" else (int if text.isdigit() else float)(text)
                for name, text in found.groupdict().items()
                if text is not None
            }
            return kind(**{**values, "epoch": values["epoch"] - 1})
    return None


def read_events(path: Path) -> Iterator[tuple[float, Event]]:
    """Return the events of a metrics.jsonl with their times, in order.

    Invalid lines, such as one that was truncated by a crash, are ignored with a warning in the log.

    Raises:
        OSError: The file cannot be read.
    """
    text = volume_files.read_text(path)
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


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number")
    return value


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a number has {len(text)} digits")
    return int(text)


def _checked(field: "dataclasses.Field[Any]", value: object) -> Any:
    """Return the value if its JSON type fits the field's annotation, which is not nested."""
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


@dataclass
class Run:
    """One run of an attempt: its events, with times in seconds since 1970."""

    start: tuple[float, Started]
    end: float
    progress: list[tuple[float, Progress]] = field(default_factory=list)
    epochs: list[tuple[float, EpochFinished]] = field(default_factory=list)
    validations: list[tuple[float, Validated]] = field(default_factory=list)

    def add(self, time: float, event: Event) -> None:
        """Add an event; kinds without a series only change the end."""
        self.end = max(self.end, time)
        if isinstance(event, Progress):
            self.progress.append((time, event))
        elif isinstance(event, EpochFinished):
            self.epochs.append((time, event))
        elif isinstance(event, Validated):
            self.validations.append((time, event))


def attempt_folders(path: Path) -> list[Path]:
    """Return the attempts' folders of an attempt or a job; none without a log.

    A link to an attempt, such as jobs/NAME/model, and the folder of that link stand for the job, so
    they have all of its attempts. A path to an attempt itself has that one.
    """
    target = path.resolve()
    if path.is_symlink() and target.parent.name == ATTEMPTS_FOLDER:
        path = target.parent.parent
    elif (path / MODEL_LINK).is_symlink():
        return attempt_folders(path / MODEL_LINK)
    if (path / EVENTS_FILE).exists():
        return [path]
    logs = path.glob(f"{EVERY_ATTEMPT}/{EVENTS_FILE}")
    return [
        log.parent for log in sorted(logs, key=lambda log: (len(log.parent.name), log.parent.name))
    ]


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Return the runs in the attempts' logs, in the order of time; empty if none has started.

    Raises:
        OSError: A log cannot be read.
    """
    runs: list[Run] = []
    for folder in folders:
        runs += runs_of(read_events(folder / EVENTS_FILE))
    return sorted(runs, key=lambda run: run.start[0])


def runs_of(events: Iterable[tuple[float, Event]]) -> list[Run]:
    """Return the runs of the events of one attempt; those before its first start are left out."""
    runs: list[Run] = []
    for time, event in events:
        if isinstance(event, Started):
            runs.append(Run(start=(time, event), end=time))
        elif runs:
            runs[-1].add(time, event)
    return runs

"""The displays of a run: bars on a terminal, lines elsewhere, JSON for scripts.

The bars are computed from a reconcile's view. Bars and lines go to the standard error, and the
result to the standard output. JSON lines all go to the standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self, TextIO

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from imagenet_operator.clusters.local import environments
from imagenet_operator.clusters.local.runner import View
from imagenet_operator.manifests.dataset import FETCH, INDEX, PACK, SEAL
from imagenet_operator.reconcile.policies import data_wait, job_status, reading
from imagenet_operator.reconcile.policies.job_status import holds
from imagenet_operator.reconcile.sample import Preparation
from imagenet_operator.reconcile.types import Event
from imagenet_spec.curves import Epoch
from imagenet_spec.resource import elastic_workers
from imagenet_spec.resource.dataset_status import FetchStatus
from imagenet_spec.resource.figures import FIGURES, LEARNING_RATE, LOSS, SHARE, SPEED
from imagenet_spec.resource.status import Status

TRAIN = "train"
_GIB = 1 << 30
_LONG_EPOCH = 3600
"""Seconds of an epoch that are worth a word."""


@dataclass(frozen=True)
class Bar:
    """One stage of a job, which has done so many of `total`, in `unit`.

    The speed is in images/s, if the members report it. `figures` are loss, accuracies and learning
    rate, in words.
    """

    name: str
    done: int
    total: int | None
    unit: str
    note: str = ""
    speed: float | None = None
    is_finished: bool = False
    figures: str = ""


def bars(view: View) -> list[Bar]:
    """Return the stages that have begun, in order."""
    status = view.job.status
    ready = holds(status.conditions, "DatasetReady")
    found = [
        bar
        for bar in (_fetch(view), _index(view, ready), _pack(view, ready), _seal(view, ready))
        if bar is not None
    ]
    if status.training is not None:
        found.append(_train(view, status))
    return found


class SteadyBars:
    """The stages over the views of one run; counters of the preparation never run backwards.

    What a pod has done is not counted between its end and the count of its shard.
    """

    def __init__(self) -> None:
        self._most: dict[tuple[str, str], int] = {}

    def of(self, view: View) -> list[Bar]:
        found = bars(view)
        for number, bar in enumerate(found):
            if bar.name != TRAIN:
                key = bar.name, bar.unit
                done = self._most[key] = max(bar.done, self._most.get(key, 0))
                # A total that is exceeded was an estimate.
                total = bar.total if bar.total is None else max(bar.total, done)
                found[number] = replace(bar, done=done, total=total)
        return found


def _fetch(view: View) -> Bar | None:
    job, dataset = view.observed.jobs.get(FETCH), view.job.status.dataset
    if job is None:
        return None
    former = None if dataset is None else dataset.fetch
    found = reading.fetch_progress(former, job, view.sample) or FetchStatus()
    if reading.is_asking(found):
        asked, files = found.asked_files or 0, found.files or 0
        note = f"asked the server for the versions of {asked:,} of {files:,} files"
        return Bar(FETCH, asked, files, "files", note)
    done, total = found.bytes, found.total_bytes
    note = f"{done / _GIB:,.2f} GiB" + (f" of {total / _GIB:,.2f}" if total else "")
    return Bar(FETCH, done, total, "bytes", note, is_finished=job.complete)


def _index(view: View, ready: bool) -> Bar | None:
    job, found = view.observed.jobs.get(INDEX), view.job.status.listed
    if job is None or (ready and found is not None and job.complete is False):
        return None
    if found is not None:
        images = found.images.train + found.images.validation
        dropped = f", {found.dropped_classes} dropped" if found.dropped_classes else ""
        note = f"{found.classes} classes{dropped}"
        return Bar(INDEX, images, images, "images", note, is_finished=True)
    heard, dataset = reading.reported(view.sample, INDEX), view.job.status.dataset
    heard = heard or Preparation()
    note = "" if dataset is None else reading.index_words(dataset)
    return Bar(INDEX, heard.images, heard.planned or None, "images", note)


def _pack(view: View, ready: bool) -> Bar | None:
    job, found = view.observed.jobs.get(PACK), view.job.status.listed
    if job is None or found is None:
        return None
    images = found.images.train + found.images.validation
    shards = f"{job.succeeded} of {found.shards} shards are done"
    training = view.job.spec.dataset.preprocessing.shards
    if found.shards > training:
        shards += f"; {training} have training images, {found.shards - training} validation images"
    if job.complete or ready:
        return Bar(PACK, images, images, "images", shards, is_finished=True)
    complete = images * job.succeeded // max(found.shards, 1)
    heard = reading.reported(view.sample, PACK) or Preparation()
    done = min(images, complete + heard.images)
    takes = reading.pack_words(found)
    return Bar(PACK, done, images, "images", f"{shards}; {takes}" if takes else shards)


def _seal(view: View, ready: bool) -> Bar | None:
    job = view.observed.jobs.get(SEAL)
    if job is None:
        return None
    finished = job.complete or ready
    note = "every shard is verified" if finished else "verifying every shard"
    return Bar(SEAL, int(finished), 1, "dataset", note, is_finished=finished)


def _train(view: View, status: Status) -> Bar:
    training, sample = status.training, view.sample
    assert training is not None
    planned = view.job.spec.training.epochs
    finished = holds(status.conditions, "Succeeded")
    restarted = [f"attempt {training.attempt}"] if training.attempt else []
    most = elastic_workers.worker_counts(view.job.spec.training)[-1]
    if training.workers is not None and training.workers < most:
        restarted.append(f"{training.workers} of {most} workers")
    values = {} if sample is None else sample.figures
    labelled = ", ".join(
        f"{item.label} {values[item.field]:{item.number.form}}"
        for item in FIGURES
        if item.label and item.field in values
    )
    if finished:
        done = planned if training.epoch is None else training.epoch + 1
        return Bar(TRAIN, done, done, "epochs", is_finished=True, figures=labelled)
    if sample is None or sample.attempt != training.attempt or sample.epoch is None:
        return Bar(TRAIN, 0, planned, "epochs", ", ".join(["starting", *restarted]))
    batches = sample.batches_per_epoch or 1
    done = min(sample.epoch * batches + (sample.batch or 0), planned * batches)
    epoch, batch = min(sample.epoch + 1, planned), sample.batch or 0
    # The most important part comes first: a narrow terminal cuts the end.
    parts = [f"epoch {epoch}/{planned}"]
    speed = sample.figures.get(SPEED)
    if sample.batches_per_epoch:  # a status does not have it
        parts.append(f"batch {batch}/{batches}")
        seconds = batches * view.job.spec.training.batch_size / speed if speed else 0
        if seconds >= _LONG_EPOCH:
            where = "" if view.job.spec.training.workers.gpus else " on CPUs"
            parts.append(f"an epoch takes {job_status.eta(round(seconds))}{where}")
    if training.data_wait is not None and data_wait.is_too_long(training.data_wait):
        parts.append(f"{100 * training.data_wait.share:.0f} % waiting for data")
    text = ", ".join([*parts, *restarted])
    return Bar(TRAIN, done, planned * batches, "batches", text, speed, figures=labelled)


def epoch_words(epoch: Epoch) -> str:
    """Return the figures of a finished epoch."""
    checked = epoch.validation
    values = {
        "loss": (epoch.loss, LOSS.form),
        "top-1": (epoch.top1, SHARE.form),
        "validation loss": (None if checked is None else checked.loss, LOSS.form),
        "validation top-1": (None if checked is None else checked.top1, SHARE.form),
        "learning rate": (epoch.learning_rate, LEARNING_RATE.form),
    }
    parts = [
        f"{name} {value:{form}}" for name, (value, form) in values.items() if value is not None
    ]
    if epoch.images_per_second is not None:
        parts.append(f"{epoch.images_per_second:,.0f} images/s")
    if epoch.attempt:
        parts.append(f"attempt {epoch.attempt}")
    return ", ".join(parts)


def epoch_document(epoch: Epoch, planned: int) -> dict[str, Any]:
    """Return the JSON line of a finished epoch; what is not known is None."""
    checked = epoch.validation
    return {
        "type": "epoch",
        "time": datetime.fromtimestamp(epoch.time, UTC).isoformat(timespec="milliseconds"),
        "attempt": epoch.attempt,
        "epoch": epoch.number,
        "epochs": planned,
        "loss": epoch.loss,
        "top1": epoch.top1,
        "top5": epoch.top5,
        "validation": None
        if checked is None
        else {
            "images": checked.images,
            "top1": checked.top1,
            "top5": checked.top5,
            "loss": checked.loss,
        },
        "learningRate": epoch.learning_rate,
        "imagesPerSecond": epoch.images_per_second,
    }


_STEPS = 4
"""The number of lines for one bar without a terminal."""

_NARROW, _WIDE = 100, 120
"""Terminal widths: below the first there are no percentages, from the second on the bar is wide."""


class Display:
    """Shows a run; a context manager. This one shows nothing."""

    def show(self, view: View) -> None:
        """Show the progress of the job."""

    def show_event(self, event: Event) -> None:
        """Show an event."""

    def show_epoch(self, epoch: Epoch, planned: int) -> None:
        """Show a finished epoch, of the planned number."""

    def say(self, text: str) -> None:
        """Show a line of text."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the display; its lines stay visible."""


class Terminal(Display):
    """Bars with speed and remaining or elapsed time, the events and epochs above, figures below.

    Lines are never wrapped. A narrow terminal first shortens the bar, then the end of the note, so
    that speed, time and the epoch stay visible.
    """

    def __init__(self, console: Console) -> None:
        is_narrow = console.width < _NARROW
        bar = 28 if console.width >= _WIDE else 6 if is_narrow else 12
        share: list[ProgressColumn] = [] if is_narrow else [TaskProgressColumn()]
        self._progress = _Bars(
            TextColumn("{task.fields[stage]:>5}", style="bold"),
            BarColumn(bar_width=bar, table_column=Column(no_wrap=True)),
            *share,
            _Speed(table_column=Column(no_wrap=True)),
            _Time("" if is_narrow else " left"),
            _Note(),
            console=console,
            refresh_per_second=4,
        )
        self._tasks: dict[str, TaskID] = {}
        self._bars = SteadyBars()

    def show(self, view: View) -> None:
        for bar in self._bars.of(view):
            if bar.name not in self._tasks:
                self._tasks[bar.name] = self._progress.add_task(
                    "", total=None, stage=bar.name, note="", unit="", said=None
                )
            task = next(task for task in self._progress.tasks if task.id == self._tasks[bar.name])
            # Given to `update`, a changed total (an estimate grows) would reset the speed.
            task.total = bar.total
            self._progress.update(
                task.id,
                completed=bar.done,
                note=bar.note,
                unit=bar.unit,
                said=bar.speed,
            )
            self._progress.figures = bar.figures

    def show_event(self, event: Event) -> None:
        style = "yellow" if event.type == "Warning" else "green"
        line = Text.assemble((event.reason, style), "  ", event.message)
        self._progress.console.print(line, soft_wrap=True)

    def show_epoch(self, epoch: Epoch, planned: int) -> None:
        line = Text.assemble((f"epoch {epoch.number}/{planned}", "cyan"), "  ", epoch_words(epoch))
        self._progress.console.print(line, soft_wrap=True)

    def say(self, text: str) -> None:
        self._progress.console.print(Text(text), soft_wrap=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class _Bars(Progress):
    """The bars, and below them the figures of the last one."""

    figures = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.figures:
            yield Text(f"{'':>5} {self.figures}", style="dim", no_wrap=True, overflow="ellipsis")


class _Time(TimeRemainingColumn):
    """The remaining time of a stage, or the elapsed time of a finished one."""

    def __init__(self, word: str) -> None:
        column = Column(no_wrap=True)
        super().__init__(compact=True, elapsed_when_finished=True, table_column=column)
        self._word = word

    def render(self, task: Task) -> Text:
        time = super().render(task)
        return time if task.finished or not time else time.append(self._word)


class _Note(ProgressColumn):
    """The note of a stage, cut at the end of the terminal."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["note"], style="dim", no_wrap=True, overflow="ellipsis")


class _Speed(ProgressColumn):
    """Images per second, from the members if they report it, else from the bar."""

    def render(self, task: Task) -> Text:
        said, unit = task.fields["said"], task.fields["unit"]
        if said is None and unit == "images" and not task.finished:
            said = task.speed
        return Text("" if said is None else f"{said:,.0f} images/s", style="cyan")


class Lines(Display):
    """Events, and a line at every finished epoch and every quarter of a preparation.

    Of a user's own program, which writes no log of epochs, a line at every epoch's beginning.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._steps: dict[str, object] = {}
        self._bars = SteadyBars()

    def show(self, view: View) -> None:
        for bar in self._bars.of(view):
            step: object = None
            if bar.name == TRAIN:
                if view.sample is not None and bar.speed is not None:
                    is_own = environments.command_of(view.job) is not None
                    step = view.sample.attempt, view.sample.epoch if is_own else None
            elif bar.total and bar.done:
                step = bar.unit, bar.done * _STEPS // bar.total, bar.is_finished
            if step is None or self._steps.get(bar.name) == step:
                continue
            self._steps[bar.name] = step
            parts = [f"{bar.name}:"]
            if bar.unit == "images" and bar.total:
                parts.append(f"{bar.done:,} of {bar.total:,} images")
            words = ", ".join(filter(None, (bar.note, bar.figures)))
            parts.append(f"({words})" if words and len(parts) > 1 else words)
            if bar.speed is not None:
                parts.append(f"at {bar.speed:,.0f} images/s")
            self._write(" ".join(part for part in parts if part))

    def show_event(self, event: Event) -> None:
        self._write(f"{event.reason}: {event.message}")

    def show_epoch(self, epoch: Epoch, planned: int) -> None:
        self._write(f"epoch {epoch.number}/{planned}: {epoch_words(epoch)}")

    def say(self, text: str) -> None:
        self._write(text)


class JsonLines(Display):
    """One JSON object a line: {"type": "event", …} or {"type": "epoch", …}."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def show_event(self, event: Event) -> None:
        self.write(
            {
                "type": "event",
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "level": event.type,
                "reason": event.reason,
                "message": event.message,
            }
        )

    def show_epoch(self, epoch: Epoch, planned: int) -> None:
        self.write(epoch_document(epoch, planned))

    def write(self, document: dict[str, Any]) -> None:
        print(json.dumps(document), file=self._output, flush=True)


def display_of(output: str) -> Display:
    """Return JSON lines for scripts; for people bars on a terminal, else lines."""
    if output == "json":
        return JsonLines(sys.stdout)
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        return Terminal(console)
    return Lines(lambda line: print(line, file=sys.stderr, flush=True))

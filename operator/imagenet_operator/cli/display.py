"""The displays of a run: bars on a terminal, lines elsewhere, JSON for scripts.

Bars and lines go to the standard error, and the result to the standard output. JSON lines all go to
the standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Self, TextIO

from rich.console import Console
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

from imagenet_operator.cli.progress import TRAIN, SteadyBars
from imagenet_operator.clusters.local.runner import View
from imagenet_operator.reconcile.types import Event

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

    def say(self, text: str) -> None:
        """Show a line of text."""

    def __enter__(self) -> Self:
        """Start the display."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the display; its lines stay visible."""


class Terminal(Display):
    """Bars with speed and remaining or elapsed time, and the events above them.

    Lines are never wrapped. A narrow terminal first shortens the bar, then the end of the note, so
    speed, time and accuracy stay visible.

    Args:
        console: The terminal.
    """

    def __init__(self, console: Console) -> None:
        is_narrow = console.width < _NARROW
        bar = 28 if console.width >= _WIDE else 6 if is_narrow else 12
        share: list[ProgressColumn] = [] if is_narrow else [TaskProgressColumn()]
        self._progress = Progress(
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
        """Move the bars."""
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

    def show_event(self, event: Event) -> None:
        """Print an event above the bars."""
        style = "yellow" if event.type == "Warning" else "green"
        line = Text.assemble((event.reason, style), "  ", event.message)
        self._progress.console.print(line, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._progress.console.print(Text(text), soft_wrap=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


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
    """Events, and a line at every epoch and every quarter of a preparation.

    Args:
        write: Takes one line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._steps: dict[str, object] = {}
        self._bars = SteadyBars()

    def show(self, view: View) -> None:
        """Write the bars that advanced by a step."""
        for bar in self._bars.of(view):
            step: object = None
            if bar.name == TRAIN:
                if view.sample is not None and bar.speed is not None:
                    step = view.sample.attempt, view.sample.epoch
            elif bar.total and bar.done:
                step = bar.unit, bar.done * _STEPS // bar.total, bar.is_finished
            if step is None or self._steps.get(bar.name) == step:
                continue
            self._steps[bar.name] = step
            parts = [f"{bar.name}:"]
            if bar.unit == "images" and bar.total:
                parts.append(f"{bar.done:,} of {bar.total:,} images")
            parts.append(f"({bar.note})" if bar.note and len(parts) > 1 else bar.note)
            if bar.speed is not None:
                parts.append(f"at {bar.speed:,.0f} images/s")
            self._write(" ".join(part for part in parts if part))

    def show_event(self, event: Event) -> None:
        """Write an event."""
        self._write(f"{event.reason}: {event.message}")

    def say(self, text: str) -> None:
        """Write a line."""
        self._write(text)


class JsonLines(Display):
    """One JSON object a line: {"type": "event", …}; events are enough for scripts.

    Args:
        output: The stream.
    """

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def show_event(self, event: Event) -> None:
        """Write an event."""
        self.write(
            {
                "type": "event",
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "level": event.type,
                "reason": event.reason,
                "message": event.message,
            }
        )

    def write(self, document: dict[str, Any]) -> None:
        """Write any object as a line."""
        print(json.dumps(document), file=self._output, flush=True)


def of_people() -> Display:
    """Return bars if the standard error is a terminal, else lines."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        return Terminal(console)
    return Lines(lambda line: print(line, file=sys.stderr, flush=True))

"""A training's events, over all its attempts, as the series that a plot draws.

Between the log of events and `plot`: reads each attempt's metrics.jsonl and sorts what is in it.
A run begins with each `started` event, since someone who trains by hand may run attempt 0 twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.events import (
    EpochFinished,
    Event,
    Progress,
    Started,
    Validated,
    read_events,
)
from imagenet_workloads.telemetry.log import FILE_NAME


@dataclass
class Run:
    """What one process of an attempt did, times in seconds since 1970.

    Attributes:
        start: when it began, and with what.
        progress: ends of display intervals.
        epochs: ends of epochs.
        validations: after epochs.
        end: time of its last event.
    """

    start: tuple[float, Started]
    end: float
    progress: list[tuple[float, Progress]] = field(default_factory=list)
    epochs: list[tuple[float, EpochFinished]] = field(default_factory=list)
    validations: list[tuple[float, Validated]] = field(default_factory=list)

    def add(self, time: float, event: Event) -> None:
        """Sorts one more event in; kinds that no series needs only move the end."""
        self.end = max(self.end, time)
        if isinstance(event, Progress):
            self.progress.append((time, event))
        elif isinstance(event, EpochFinished):
            self.epochs.append((time, event))
        elif isinstance(event, Validated):
            self.validations.append((time, event))


def attempt_folders(paths: Sequence[Path]) -> list[Path]:
    """The attempts' folders that some paths mean: themselves, or all attempts of a job's folder.

    Raises:
        InputError: a path is neither.
    """
    folders: list[Path] = []
    for path in paths:
        if (path / FILE_NAME).exists():
            folders.append(path)
            continue
        logs = path.glob(f"attempts/r[0-9]*/{FILE_NAME}")
        found = sorted(logs, key=lambda log: (len(log.parent.name), log.parent.name))
        if not found:
            raise InputError(
                f"{path}: holds no {FILE_NAME}; give the folder of an attempt (…/attempts/rN), "
                "or of a job with its attempts"
            )
        folders.extend(log.parent for log in found)
    return folders


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """The runs that the attempts' logs tell of, in the order of time.

    Raises:
        InputError: a log cannot be read, or no run has begun in any.
    """
    runs: list[Run] = []
    names = []
    for folder in folders:
        names.append(str(folder / FILE_NAME))
        run: Run | None = None
        for time, event in read_events(folder / FILE_NAME):
            if isinstance(event, Started):
                run = Run(start=(time, event), end=time)
                runs.append(run)
            elif run is not None:
                run.add(time, event)
    if not runs:
        raise InputError(f"nothing to draw: no training has started in {', '.join(names)}")
    return sorted(runs, key=lambda run: run.start[0])

"""The events of a training over all attempts, from each attempt's metrics.jsonl.

`plot` draws them as series, and a worker asks how far earlier attempts came. Each `started` event
begins a run, because attempt 0 may run twice without an operator.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from imagenet_spec.names import EVENTS_FILE, EVERY_ATTEMPT
from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.events import (
    EpochFinished,
    Event,
    Progress,
    Started,
    Validated,
    read_events,
)


@dataclass
class Run:
    """One run of an attempt, with times in seconds since 1970.

    Attributes:
        start: Its time and its `started` event.
        progress: The ends of display intervals.
        epochs: The ends of epochs.
        validations: The validations after epochs.
        end: The time of its last event.
    """

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


def attempt_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the folders of attempts for some paths, which are attempts or jobs.

    Raises:
        InputError: A path is neither.
    """
    folders: list[Path] = []
    for path in paths:
        if (path / EVENTS_FILE).exists():
            folders.append(path)
            continue
        logs = path.glob(f"{EVERY_ATTEMPT}/{EVENTS_FILE}")
        found = sorted(logs, key=lambda log: (len(log.parent.name), log.parent.name))
        if not found:
            raise InputError(
                f"{path}: has no {EVENTS_FILE}; give the folder of an attempt (…/attempts/rN), "
                "or of a job with its attempts"
            )
        folders.extend(log.parent for log in found)
    return folders


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Return the runs in the attempts' logs, in the order of time.

    Raises:
        InputError: A log cannot be read, or none has a run.
    """
    runs: list[Run] = []
    names = []
    for folder in folders:
        names.append(str(folder / EVENTS_FILE))
        run: Run | None = None
        for time, event in read_events(folder / EVENTS_FILE):
            if isinstance(event, Started):
                run = Run(start=(time, event), end=time)
                runs.append(run)
            elif run is not None:
                run.add(time, event)
    if not runs:
        raise InputError(f"nothing to plot: no training has started in {', '.join(names)}")
    return sorted(runs, key=lambda run: run.start[0])


def trained_before(output: Path, training: str) -> float:
    """Return how many epochs the earlier runs of a training came to, with their fraction.

    Later steps of theirs are lost, and trained again. A log names a position after each display
    interval, so the steps of the last interval are not known.

    Args:
        output: the folder with the attempts.
        training: the identity of the training, as its runs have recorded it.
    """
    try:
        runs = read_runs(attempt_folders([output]))
    except InputError:
        return 0.0  # no run has started
    furthest = 0.0
    for run in runs:
        started = run.start[1]
        if started.training == training and started.batches_per_epoch:
            for _, reached in run.progress:
                furthest = max(furthest, reached.epoch + reached.batch / started.batches_per_epoch)
    return furthest

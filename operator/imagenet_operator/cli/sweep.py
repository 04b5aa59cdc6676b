"""The run and the report of `imagenetctl scale`: points on this machine, lines, table and plot.

A `Runner` runs the points: `Here` as `imagenetctl run` does, `sweep_on_cluster` on a cluster. The
table is written after each point, so an interrupted sweep has one too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from imagenet_operator.cli import files, local_resources, programs, result, run
from imagenet_operator.cli.display import display_of
from imagenet_operator.cli.local_resources import LocalResources
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.state import JobFolder
from imagenet_operator.scaling import table
from imagenet_operator.scaling.points import Point, PointStatus, point_status
from imagenet_operator.scaling.table import Measured, Row, rows
from imagenet_spec.names import MODEL_LINK
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.validate import parse


@dataclass(frozen=True)
class Outcome:
    """The outcome of one point: measured, failed, or interrupted.

    It is old if it was done before this command started. One that ran now has a JSON result.
    """

    point: Point
    measured: Measured | None = None
    failure: str | None = None
    is_old: bool = False
    document: dict[str, Any] | None = None

    @property
    def is_interrupted(self) -> bool:
        return self.measured is None and self.failure is None


def by_status(point: Point, job: ImageNetJob) -> Measured:
    """Return the figures of a point that succeeded, from its job's status."""
    training = job.status.training
    assert training is not None
    accuracy = None if training.accuracy is None else training.accuracy.validation
    return Measured(point, training.clock.seconds, training.images_per_second, accuracy)


class Runner(Protocol):
    """Runs points."""

    def get_ready(self, points: Sequence[Point]) -> None:
        """Check that all points can run, then create what they share.

        Raises:
            ImageNetJobError: One cannot; nothing was created.
        """

    def run(self, point: Point) -> Outcome:
        """Run a point to its end, or read the outcome of an earlier run."""

    def remedy(self, failed: Sequence[str]) -> str:
        """Return how to run failed jobs again."""


class Here:
    """Runs points one after the other, in one working directory; a `Runner`.

    Without a `claim`, the manifest names that of the shared dataset.
    """

    def __init__(self, resources: LocalResources, claim: str | None, output: str) -> None:
        self._resources = resources
        self._claim = claim
        self._output = output

    def get_ready(self, points: Sequence[Point]) -> None:
        if points:
            self._folder(points[0]).check()
        jobs = [parse(point.manifest) for point in points]
        local_resources.get_ready(jobs, self._resources, self._claim)

    def run(self, point: Point) -> Outcome:
        job = parse(point.manifest)
        folder = self._folder(point)
        stored = folder.stored()
        former = None if stored is None else ImageNetJob.model_validate(stored)
        if former is not None and point_status(job, former) is PointStatus.SUCCEEDED:
            found = result.collect(former, self._resources.volumes, 0.0, None)
            measured = _measured(point, found)
            # The link of a deleted result is broken.
            is_lost = found.model is None and (folder.path / MODEL_LINK).is_symlink()
            # A program of the user's own may leave no speed.
            if measured.images_per_second is not None or not is_lost:
                return Outcome(point, measured, is_old=True)
        end = run.execute(job, self._resources, display_of(self._output))
        return Outcome(
            point,
            measured=_measured(point, end) if end.succeeded else None,
            failure=result.failure_text(end) if end.failure is not None else None,
            document=result.as_json(end),
        )

    def remedy(self, failed: Sequence[str]) -> str:
        return "the same command runs them again"

    def _folder(self, point: Point) -> JobFolder:
        return JobFolder(self._resources.workdir, point.name)


def _measured(point: Point, end: result.Result) -> Measured:
    """Return the figures of the result, or of the status if the result was deleted."""
    if end.model is None:
        return by_status(point, end.job)
    training = end.job.status.training
    assert training is not None
    # The files of the model, which result.json names.
    named = [end.model / name for name in (end.training.get("model") or {}).values()]
    sizes = [
        file.stat().st_size
        for path in named
        for file in ([path] if path.is_file() else path.rglob("*"))
        if file.is_file()
    ]
    return Measured(
        point,
        training.clock.seconds,
        end.training.get("train", {}).get("imagesPerSecond"),
        (end.training.get("validation") or {}).get("top1"),
        sum(sizes) or None,
    )


class Report:
    """Prints the results of a sweep, and writes them into the working directory."""

    def __init__(self, folder: Path, name: str, output: str, points: Sequence[Point]) -> None:
        self._json = output == "json"
        self._stem = folder / name
        most_first = sorted(points, key=lambda point: point.units, reverse=True)
        self._fewest = {point.series: point.units for point in most_first}
        self._rows: list[Row] = []
        self._done: list[Outcome] = []
        self._is_cut = False

    def say(self, text: str) -> None:
        if not self._json:
            print(text, file=sys.stderr, flush=True)

    def point(self, outcome: Outcome) -> None:
        self._done.append(outcome)
        if self._json and outcome.document is not None:
            print(json.dumps(outcome.document), flush=True)
        elif outcome.failure is not None:
            self.say(f"imagenetctl: {outcome.failure}")
        elif outcome.is_old:
            self.say("it is done, and does not run again")
        if outcome.measured is not None:
            measured = [item.measured for item in self._done if item.measured is not None]
            self._rows = rows(measured, self._fewest)
            self._write("csv", table.as_csv(self._rows))
            self._write("md", table.as_markdown(self._rows))

    def conclude(self, remedy: Callable[[Sequence[str]], str]) -> int:
        if self._rows and not self._json:
            print(table.as_text(self._rows), flush=True)
        plot = self._plot() if self._rows else None
        failed = [outcome.point.name for outcome in self._done if outcome.failure is not None]
        interrupted = self._is_cut or any(outcome.is_interrupted for outcome in self._done)
        end = "Interrupted" if interrupted else "Failed" if failed else "Succeeded"
        if self._json:
            document = {
                "type": "scaling",
                "outcome": end,
                "points": [table.record(row) for row in self._rows],
                "failed": failed,
                "csv": str(self._path("csv")) if self._rows else None,
                "markdown": str(self._path("md")) if self._rows else None,
                "plot": str(plot) if plot else None,
            }
            print(json.dumps(document), flush=True)
        else:
            if self._rows:
                written = [self._path("csv"), self._path("md"), *([plot] if plot else [])]
                self.say("written: " + ", ".join(map(str, written)))
            if failed:
                self.say(f"failed: {', '.join(failed)}; {remedy(failed)}")
            if interrupted:
                self.say("interrupted; run the same command again to resume")
        return result.EXIT_CODES[end]

    def _write(self, ending: str, text: str) -> None:
        path = self._path(ending)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.replace(path, text)
        except OSError as error:
            raise LocalError(
                f"cannot write {path}: {error.strerror}; free space there, or name another working "
                "directory with --workdir"
            ) from error

    def _path(self, ending: str) -> Path:
        return self._stem.with_name(f"{self._stem.name}.{ending}")

    def _plot(self) -> Path | None:
        picture = self._path("png")
        try:
            reason = programs.draw("--scaling", self._path("csv"), "--output", picture)
        except KeyboardInterrupt:  # the table exists and must still be printed
            self._is_cut = True
            reason = "interrupted"
        if reason is None:
            return picture
        self.say(f"no plot: {reason}")
        return None

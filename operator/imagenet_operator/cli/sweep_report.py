"""The report of `imagenetctl scale`: lines, table and plot.

The table is written after each point, so an interrupted sweep has one too.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.sweep import Outcome
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.process import find_program, program_folders
from imagenet_operator.scaling import table
from imagenet_operator.scaling.points import Point
from imagenet_operator.scaling.speedup import Row, rows

_PLOT = "imagenet-plot"


class Report:
    """Prints the results of a sweep, and writes them into the working directory.

    Args:
        folder: The folder of the table and the plot.
        name: The sweep's name, which is the manifest's.
        output: "text" for people, "json" for scripts.
        points: All points to run.
    """

    def __init__(self, folder: Path, name: str, output: str, points: Sequence[Point]) -> None:
        self._json = output == "json"
        self._stem = folder / name
        most_first = sorted(points, key=lambda point: point.units, reverse=True)
        self._fewest = {point.series: point.units for point in most_first}
        self._rows: list[Row] = []
        self._done: list[Outcome] = []
        self._is_cut = False

    def say(self, text: str) -> None:
        """Print a line of text."""
        if not self._json:
            print(text, file=sys.stderr, flush=True)

    def point(self, outcome: Outcome) -> None:
        """Print the outcome of a point, and write the table so far."""
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
            _write(self._path("csv"), table.as_csv(self._rows))
            _write(self._path("md"), table.as_markdown(self._rows))

    def conclude(self, remedy: Callable[[Sequence[str]], str]) -> int:
        """Show the table and draw the plot; return the exit code.

        Args:
            remedy: Returns how to run failed jobs again.
        """
        if self._rows and not self._json:
            print(table.as_text(self._rows), flush=True)
        plot = self._plot() if self._rows else None
        failed = [outcome.point.name for outcome in self._done if outcome.failure is not None]
        interrupted = self._is_cut or any(outcome.is_interrupted for outcome in self._done)
        if interrupted:
            code, end = exit_codes.INTERRUPTED, "Interrupted"
        else:
            code = exit_codes.FAILED if failed else exit_codes.SUCCESS
            end = "Failed" if failed else "Succeeded"
        if self._json:
            print(json.dumps(self._document(end, failed, plot)), flush=True)
        else:
            self._say_written(plot)
            if failed:
                self.say(f"failed: {', '.join(failed)}; {remedy(failed)}")
            if interrupted:
                self.say("interrupted; run the same command again to resume")
        return code

    def _say_written(self, plot: Path | None) -> None:
        if self._rows:
            written = [self._path("csv"), self._path("md"), *([plot] if plot else [])]
            self.say("written: " + ", ".join(map(str, written)))

    def _path(self, ending: str) -> Path:
        return self._stem.with_name(f"{self._stem.name}.{ending}")

    def _document(self, end: str, failed: list[str], plot: Path | None) -> dict[str, Any]:
        has_table = bool(self._rows)
        return {
            "type": "scaling",
            "outcome": end,
            "points": [table.record(row) for row in self._rows],
            "failed": failed,
            "csv": str(self._path("csv")) if has_table else None,
            "markdown": str(self._path("md")) if has_table else None,
            "plot": str(plot) if plot else None,
        }

    def _plot(self) -> Path | None:
        """Draw the plot by the workloads' program: the operator's image lacks matplotlib."""
        program = find_program(_PLOT, program_folders(os.environ))
        if program is None:
            self.say(f"no plot: the program {_PLOT!r} is not installed beside this one")
            return None
        picture = self._path("png")
        command = [*map(str, (program, "--scaling", self._path("csv"), "--output", picture))]
        try:
            drawn = subprocess.run(command, capture_output=True, text=True, check=False)
        except KeyboardInterrupt:  # the table exists and must still be printed
            self._is_cut = True
            self.say("no plot: interrupted")
            return None
        if drawn.returncode != 0:
            self.say(f"no plot: {drawn.stderr.strip()}")
            return None
        return picture


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    temporary = path.with_name(f".{path.name}.tmp-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(path)
    except OSError as error:
        raise LocalError(
            f"cannot write {path}: {error.strerror}; free space there, or name another working "
            "directory with --workdir"
        ) from error

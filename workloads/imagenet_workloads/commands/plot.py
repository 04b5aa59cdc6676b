"""`imagenet-plot`: plots a training's accuracy and images/s over time, or a sweep.

Reads the metrics.jsonl of each attempt on the output volume, or the table of `imagenetctl scale`.
Needs no cluster.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from imagenet_spec.program import kinds
from imagenet_workloads.errors import InputError, StorageError, WorkloadError
from imagenet_workloads.process.program import run_program

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROGRAM = "imagenet-plot"
PICTURE_NAME = "training.png"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-plot`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Plot accuracy and images/s of a training over time, with restarts, or the "
        "speedup of a sweep over numbers of workers, as PNG.",
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=kinds.path,
        metavar="ATTEMPT_FOLDER",
        help="…/attempts/rN, several for a training with restarts; or the folder above attempts",
    )
    parser.add_argument(
        "--scaling",
        type=kinds.path,
        metavar="CSV",
        help="instead of a training: the table of a sweep, from imagenetctl scale",
    )
    parser.add_argument(
        "--time",
        type=kinds.path,
        metavar="JSON",
        help="instead of a training: the time of a job, from imagenetctl report --json",
    )
    parser.add_argument(
        "--output",
        type=kinds.path,
        metavar="PNG",
        help=f"the picture (default: {PICTURE_NAME} in the last attempt's folder, or the table's "
        "name with .png)",
    )
    parser.add_argument(
        "--title", help="title of the picture (default: the job's folder, or the table's name)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-plot`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    if [bool(parsed.folders), bool(parsed.scaling), bool(parsed.time)].count(True) != 1:
        raise InputError(
            "write the folders of a training, --scaling CSV or --time JSON, one of the three"
        )
    try:
        figure, path = _draw(parsed)
    except ModuleNotFoundError as error:
        raise WorkloadError(f"needs {error.name}; type: pip install matplotlib") from error
    if path.suffix.lower() != ".png":
        raise InputError(f"--output {path}: the picture is a PNG; write a name that ends in .png")
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    print(path)


def _draw(parsed: argparse.Namespace) -> "tuple[Figure, Path]":
    # Imported here: the parser must be importable without matplotlib.
    from imagenet_workloads.telemetry import plot
    from imagenet_workloads.telemetry.history import attempt_folders, read_runs

    if parsed.scaling:
        table: Path = parsed.scaling
        figure = plot.draw_scaling(plot.read_points(table), parsed.title or table.stem)
        return figure, parsed.output or table.with_suffix(".png")
    if parsed.time:
        file: Path = parsed.time
        report = plot.read_report(file)
        figure = plot.draw_time(report, parsed.title or report.name)
        return figure, parsed.output or file.with_suffix(".png")
    folders = attempt_folders(parsed.folders)
    title = parsed.title or folders[-1].resolve().parent.parent.name
    figure = plot.draw_training(read_runs(folders), title)
    return figure, parsed.output or folders[-1] / PICTURE_NAME


if __name__ == "__main__":
    sys.exit(main())

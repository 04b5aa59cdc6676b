"""`imagenet-plot`: plots a training's loss, accuracy, learning rate and speed, or a sweep.

Reads the metrics.jsonl of each attempt on the output volume, or the table of `imagenetctl scale`.
Needs no cluster.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from imagenet_spec.names import EVENTS_FILE, PLOT_FILE
from imagenet_spec.program import kinds
from imagenet_workloads.errors import InputError, StorageError, WorkloadError
from imagenet_workloads.process.program import run_program

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROGRAM = "imagenet-plot"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-plot`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Plot loss, accuracy, learning rate and images/s of a training by epoch, with "
        "restarts, or the speedup of a sweep over numbers of workers, as PNG.",
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=kinds.path,
        metavar="FOLDER",
        help="the folder of a job, or the link jobs/NAME/model: all attempts; or …/attempts/rN: "
        "this attempt, and further ones",
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
        help="instead of a training: the time of a job, from imagenetctl report --output json",
    )
    parser.add_argument(
        "--compare",
        type=kinds.path,
        metavar="JSON",
        help="instead of a training: several, from imagenetctl compare --output json",
    )
    parser.add_argument(
        "--output",
        type=kinds.path,
        metavar="PNG",
        help=f"the picture (default: {PLOT_FILE} in the last attempt's folder, or the table's "
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
    given = [parsed.folders, parsed.scaling, parsed.time, parsed.compare]
    if len([source for source in given if source]) != 1:
        raise InputError(
            "write the folders of a training, --scaling CSV, --time JSON or --compare JSON, one of "
            "the four"
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
    from imagenet_spec.events import attempt_folders, read_runs
    from imagenet_workloads.telemetry import plot

    if parsed.scaling:
        table: Path = parsed.scaling
        figure = plot.draw_scaling(plot.read_points(table), parsed.title or table.stem)
        return figure, parsed.output or table.with_suffix(".png")
    if parsed.time:
        file: Path = parsed.time
        report = plot.read_report(file)
        figure = plot.draw_time(report, parsed.title or report.name)
        return figure, parsed.output or file.with_suffix(".png")
    if parsed.compare:
        compared: Path = parsed.compare
        comparison = plot.read_comparison(compared)
        names = list(comparison.jobs)
        whose = ", ".join(names) if len(names) <= 4 else f"{len(names)} trainings"
        figure = plot.draw_comparison(
            comparison, parsed.title or f"{whose}: accuracy and loss by what they cost"
        )
        return figure, parsed.output or compared.with_suffix(".png")
    folders: list[Path] = []
    for path in parsed.folders:
        found = attempt_folders(path)
        if not found:
            raise InputError(
                f"{path}: has no {EVENTS_FILE}; give the folder of an attempt (…/attempts/rN), "
                "or of a job with its attempts"
            )
        folders += found
    try:
        runs = read_runs(folders)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error
    if not runs:
        logs = ", ".join(str(folder / EVENTS_FILE) for folder in folders)
        raise InputError(f"nothing to plot: no training has started in {logs}")
    name = folders[-1].resolve().parent.parent.name
    title = parsed.title or f"{name}: loss, accuracy, learning rate and speed by epoch"
    figure = plot.draw_training(runs, title)
    return figure, parsed.output or folders[-1] / PLOT_FILE


if __name__ == "__main__":
    sys.exit(main())

"""`imagenet-plot`: draws a training's accuracy and images/s over wall-clock time.

Reads the metrics.jsonl that each attempt leaves on the output volume; needs nothing of a cluster.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from imagenet_workloads.commands.program import run_program
from imagenet_workloads.errors import InputError, PlaceError, WorkloadError

PROGRAM = "imagenet-plot"
PICTURE_NAME = "training.png"


def build_parser() -> argparse.ArgumentParser:
    """The parser of `imagenet-plot`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Draw accuracy and images/s of a training over time, restarts marked, as PNG.",
    )
    parser.add_argument(
        "folders",
        nargs="+",
        type=Path,
        metavar="ATTEMPT_FOLDER",
        help="…/attempts/rN, several for a training that restarted; or the folder above attempts",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PNG",
        help=f"the picture (default: {PICTURE_NAME} in the last attempt's folder)",
    )
    parser.add_argument("--title", help="above the picture (default: the job's folder)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `imagenet-plot`; returns the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    try:
        # Here, and not above, since the parser must be importable without matplotlib.
        from imagenet_workloads.telemetry.plot import draw
    except ModuleNotFoundError as error:
        raise WorkloadError(
            f"needs {error.name}; install imagenet-workloads with its extra `plot`"
        ) from error
    from imagenet_workloads.telemetry.history import attempt_folders, read_runs

    folders = attempt_folders(parsed.folders)
    path: Path = parsed.output or folders[-1] / PICTURE_NAME
    if path.suffix.lower() != ".png":
        raise InputError(f"--output {path}: the picture is a PNG; write a name that ends in .png")
    title = parsed.title or folders[-1].resolve().parent.parent.name
    figure = draw(read_runs(folders), title)
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise PlaceError(f"cannot write {path}: {error.strerror or error}") from error
    print(path)


if __name__ == "__main__":
    sys.exit(main())

"""`imagenet-ledger`: checks that a job's training has trained every record once an epoch.

It reads the ledgers of all attempts below a job's output folder. With `--dataset`, it compares them
with the records themselves.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from imagenet_spec.names import EVERY_ATTEMPT, RESULT_FILE
from imagenet_spec.program import kinds

if TYPE_CHECKING:
    from imagenet_workloads.train.ledger_check import EpochReport, Run

PROGRAM = "imagenet-ledger"
# The ledger is wrong; 3 is that of an input that cannot be read.
MISTAKES = 1


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `imagenet-ledger`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Check that every record of each epoch was trained once, over all attempts.",
    )
    parser.add_argument(
        "folder", type=kinds.path, metavar="FOLDER", help="the job's folder on its output volume"
    )
    parser.add_argument(
        "--dataset",
        type=kinds.path,
        metavar="FOLDER",
        help="a sealed dataset, to compare each trained record with the one of its position",
    )
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text, or a JSON object for scripts (default: text)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Check; return the exit code."""
    from imagenet_workloads.process.program import run_program

    options = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _check(options))


def _check(options: argparse.Namespace) -> int:
    from imagenet_workloads.dataset import read_dataset
    from imagenet_workloads.records.split import open_split
    from imagenet_workloads.train.ledger_check import check, find_runs

    runs = find_runs(options.folder)
    is_finished = any(options.folder.glob(f"{EVERY_ATTEMPT}/{RESULT_FILE}"))
    identities = None
    if options.dataset is not None:
        dataset = read_dataset(options.dataset)
        records = open_split(dataset.train, dataset.format, options.dataset)
        identities = records.identities()
    epochs = list(check(runs, is_finished, identities))
    if options.output == "json":
        print(json.dumps(_document(runs, epochs), indent=2))
    else:
        print("\n".join(_lines(runs, epochs)))
    return MISTAKES if any(epoch.mistakes for epoch in epochs) else 0


def _document(runs: "Sequence[Run]", epochs: "Sequence[EpochReport]") -> dict[str, object]:
    return {
        "images": runs[0].files[0].head.images,
        "attempts": [
            {
                "attempt": run.attempt,
                "workers": run.workers,
                "epoch": run.start.epoch,
                "image": run.start.image,
            }
            for run in runs
        ],
        "epochs": [
            {
                "epoch": epoch.epoch,
                "trained": epoch.trained,
                "redone": epoch.redone,
                "mistakes": list(epoch.mistakes),
            }
            for epoch in epochs
        ],
    }


def _lines(runs: "Sequence[Run]", epochs: "Sequence[EpochReport]") -> list[str]:
    images = runs[0].files[0].head.images
    lines = [
        f"attempt {run.attempt}: {run.workers} workers, from epoch {run.start.epoch + 1} image "
        f"{run.start.image}"
        for run in runs
    ]
    for epoch in epochs:
        redone = f", {epoch.redone:,} redone" if epoch.redone else ""
        lines.append(f"epoch {epoch.epoch + 1}: {epoch.trained:,} of {images:,} trained{redone}")
        lines += [f"  wrong: {mistake}" for mistake in epoch.mistakes]
    wrong = sum(bool(epoch.mistakes) for epoch in epochs)
    lines.append(f"{wrong} epochs are wrong" if wrong else "every record was trained once an epoch")
    return lines


if __name__ == "__main__":
    sys.exit(main())

"""`imagenet-ledger`: checks that a job's training has trained every record once an epoch.

It reads the ledgers of all attempts below a job's output folder. With `--dataset`, it compares them
with the records themselves.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from imagenet_spec.names import EVERY_ATTEMPT, RESULT_FILE
from imagenet_spec.program import kinds

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
    from imagenet_workloads.train.ledger import check, find_runs

    runs = find_runs(options.folder)
    is_finished = any(options.folder.glob(f"{EVERY_ATTEMPT}/{RESULT_FILE}"))
    identities = None
    if options.dataset is not None:
        dataset = read_dataset(options.dataset)
        records = open_split(dataset.train, dataset.format, options.dataset)
        identities = records.identities()
    epochs = list(check(runs, is_finished, identities))
    images = runs[0].files[0].head.images
    wrong = sum(bool(epoch.mistakes) for epoch in epochs)
    if options.output == "json":
        document = {
            "images": images,
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
        print(json.dumps(document, indent=2))
        return MISTAKES if wrong else 0
    for run in runs:
        print(
            f"attempt {run.attempt}: {run.workers} workers, from epoch {run.start.epoch + 1} image "
            f"{run.start.image}"
        )
    for epoch in epochs:
        redone = f", {epoch.redone:,} redone" if epoch.redone else ""
        print(f"epoch {epoch.epoch + 1}: {epoch.trained:,} of {images:,} trained{redone}")
        for mistake in epoch.mistakes:
            print(f"  wrong: {mistake}")
    print(f"{wrong} epochs are wrong" if wrong else "every record was trained once an epoch")
    return MISTAKES if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

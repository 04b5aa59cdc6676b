"""`imagenet-seal`: verifies every shard and writes dataset.json; the last step of the preparation.

The command line of `prepare.seal`. Its result is one JSON object on stdout and in the termination
message: the number of images, and of damaged images that were skipped.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program import kinds
from imagenet_workloads import arguments
from imagenet_workloads.process.program import run_program, write_termination_message

PROGRAM = "imagenet-seal"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-seal`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Verify the shards of a dataset and write its dataset.json.",
    )
    arguments.add_dataset(parser, required=False)
    parser.add_argument(
        "--dataset",
        type=kinds.path,
        metavar="FOLDER",
        help="instead of --data and --key, with --verify: the folder of a dataset.json, which is "
        "only read",
    )
    arguments.add_threads(parser)
    parser.add_argument(
        "--verify",
        action="store_true",
        help="read a sealed dataset again; one with damaged shards is no longer sealed, so that "
        "the next preparation makes these shards again",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-seal`; return the exit code."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    planned = [parsed.data, parsed.key]
    if None in planned if parsed.dataset is None else planned != [None, None] or not parsed.verify:
        parser.error("give --data and --key, or --dataset with --verify")
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from imagenet_workloads.dataset import read_dataset
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.prepare import plan, seal
    from imagenet_workloads.telemetry import server

    server.start(Environment.from_mapping(os.environ))
    threads = parsed.threads or arguments.available_cores()
    if parsed.dataset is not None:
        seal.verify_folder(parsed.dataset, threads)
        sealed = read_dataset(parsed.dataset)
    else:
        if parsed.verify:
            seal.verify(parsed.data, parsed.key, threads)
        seal.run(parsed.data, parsed.key, threads)
        sealed = read_dataset(plan.folder_of(parsed.data, parsed.key))
    images = {"train": sealed.train.images, "validation": sealed.validation.images}
    text = json.dumps({"images": images, "skipped": sealed.skipped.count})
    print(text, flush=True)
    write_termination_message(text)


if __name__ == "__main__":
    sys.exit(main())

"""`imagenet-seal`: checks every shard and writes dataset.json; the last of the preparing pods.

The command line of `prepare.seal`.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from imagenet_workloads.commands import arguments as types
from imagenet_workloads.commands.program import run_program

PROGRAM = "imagenet-seal"


def build_parser() -> argparse.ArgumentParser:
    """The parser of `imagenet-seal`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Check the shards of a dataset and write its dataset.json.",
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="the dataset volume"
    )
    parser.add_argument(
        "--key", type=types.key, required=True, help="the dataset's key, as imagenet-index says it"
    )
    parser.add_argument(
        "--threads",
        type=types.count,
        metavar="N",
        help="shards checked at a time (default: the cores that this process may use)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `imagenet-seal`; returns the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from imagenet_workloads.prepare import cores, seal

    seal.run(parsed.data, parsed.key, parsed.threads or cores.available())


if __name__ == "__main__":
    sys.exit(main())

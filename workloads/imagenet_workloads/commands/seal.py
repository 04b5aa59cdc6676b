"""`imagenet-seal`: verifies every shard and writes dataset.json; the last step of the preparation.

The command line of `prepare.seal`. Its result is one JSON object on stdout and in the termination
message: the number of images, of damaged images that were skipped, and what the check has found.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import SEAL
from imagenet_workloads import cores
from imagenet_workloads.process.program import leave_result, run_program


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-seal`."""
    return parser(SEAL, description="Verify the shards of a dataset and write its dataset.json.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-seal`; return the exit code."""
    built = build_parser()
    parsed = built.parse_args(arguments)
    planned = [parsed.data, parsed.key]
    if None in planned if parsed.dataset is None else planned != [None, None] or not parsed.verify:
        built.error("give --data and --key, or --dataset with --verify")
    return run_program(SEAL.name, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from imagenet_workloads.dataset import read_dataset
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.prepare import plan, seal
    from imagenet_workloads.telemetry import server

    server.start(Environment.from_mapping(os.environ))
    threads = parsed.threads or cores.available_cores()
    if parsed.dataset is not None:
        seal.verify_folder(parsed.dataset, threads)
        sealed = read_dataset(parsed.dataset)
    else:
        if parsed.verify:
            seal.verify(parsed.data, parsed.key, threads)
        seal.run(parsed.data, parsed.key, threads)
        sealed = read_dataset(plan.folder_of(parsed.data, parsed.key))
    images = {"train": sealed.train.images, "validation": sealed.validation.images}
    result: dict[str, object] = {"images": images, "skipped": sealed.skipped.count}
    if sealed.findings is not None and sealed.findings.warnings:
        result["findings"] = sealed.findings.warnings
    # dataset.json has the findings.
    leave_result(result, optional="findings")


if __name__ == "__main__":
    sys.exit(main())

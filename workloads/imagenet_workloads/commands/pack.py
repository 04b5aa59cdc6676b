"""`imagenet-pack`: writes the planned shards, one in each pod.

The command line of `prepare.pack`. In an Indexed Job it writes the shard of its
JOB_COMPLETION_INDEX. With neither that nor --shard, it writes all shards. Its termination message
is one JSON object with the images that one core decodes in a second.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program import kinds
from imagenet_workloads import arguments
from imagenet_workloads.prepare.sources import kinds as sources
from imagenet_workloads.process import heap
from imagenet_workloads.process.program import run_program, write_termination_message

PROGRAM = "imagenet-pack"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-pack`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Decode, resize and pack the images of a planned shard.",
    )
    arguments.add_dataset(parser)
    sources.add_pack_options(parser)
    parser.add_argument(
        "--shard",
        type=kinds.count,
        metavar="I",
        help="number of the shard, training shards from 0, then validation shards "
        "(default: $JOB_COMPLETION_INDEX, or all shards)",
    )
    arguments.add_threads(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-pack`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    heap.keep_freed_memory()
    # Imported here: the parser must be importable without OpenCV.
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.prepare import pack
    from imagenet_workloads.telemetry import preparation

    environment = Environment.from_mapping(os.environ)
    recorder = preparation.start(environment)
    sources.report_traffic(recorder.requested)
    shard = parsed.shard if parsed.shard is not None else environment.completion_index
    speed = pack.run(
        pack.PackRequest(
            data=parsed.data,
            key=parsed.key,
            open_source=lambda planned: sources.open_planned(planned, parsed),
            shard=shard,
            threads=parsed.threads or arguments.available_cores(),
        ),
        recorder,
    )
    if speed is not None:
        write_termination_message(json.dumps({"decodedImagesPerSecond": round(speed, 1)}))


if __name__ == "__main__":
    sys.exit(main())

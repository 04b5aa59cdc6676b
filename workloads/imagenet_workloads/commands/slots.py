"""`imagenet-slots`: runs the slots of a pod, each a process of one training.

The command line of `slots.launcher`.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program import kinds
from imagenet_workloads.process.program import run_program

PROGRAM = "imagenet-slots"

DESCRIPTION = """\
Run a command once for each slot of this pod, with Horovod once its rendezvous listens
(imagenet-train starts at once, and waits by itself). Each slot has its own rank (HOROVOD_RANK and
HOROVOD_LOCAL_RANK, or with DistributedDataParallel RANK and LOCAL_RANK) and metrics port, and its
share of the GPUs (CUDA_VISIBLE_DEVICES) and threads (OMP_NUM_THREADS). This program serves the
metrics of all slots, and forwards signals. If a slot fails, all slots are ended, and its exit
code is returned.
"""

EXAMPLE = """\
example:
  imagenet-slots --slots 2 -- imagenet-train --kv-store horovod --dataset data/digits
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-slots`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--slots",
        type=kinds.positive,
        required=True,
        metavar="N",
        help="the value of HOROVOD_LOCAL_SIZE or LOCAL_WORLD_SIZE",
    )
    parser.add_argument(
        "--join-timeout",
        type=kinds.amount_above_zero,
        default=900.0,
        metavar="SECONDS",
        help="the longest wait for the rendezvous (default: 900)",
    )
    parser.add_argument(
        "--termination-grace",
        type=kinds.amount,
        default=30.0,
        metavar="SECONDS",
        help="the time for the other slots to end after a slot has failed (default: 30)",
    )
    parser.add_argument(
        "command", nargs="+", metavar="COMMAND", help="the program and its arguments"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-slots`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> int:
    from imagenet_workloads.slots.launcher import launch
    from imagenet_workloads.telemetry.log import log_readably

    log_readably()
    return launch(
        parsed.command, parsed.slots, parsed.join_timeout, parsed.termination_grace, os.environ
    )


if __name__ == "__main__":
    sys.exit(main())

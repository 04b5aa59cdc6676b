"""`imagenet-slots`: runs a pod's slots, one process of a Horovod job each, as one program.

The command line of `slots.launcher`.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from imagenet_workloads import arguments as types
from imagenet_workloads.process.program import run_program
from imagenet_workloads.train.options import kinds

PROGRAM = "imagenet-slots"

DESCRIPTION = """\
Wait for the rendezvous of a Horovod job, then run a command once for each slot of this pod, with
its own HOROVOD_RANK and HOROVOD_LOCAL_RANK, its share of the GPUs (CUDA_VISIBLE_DEVICES) and of the
threads (OMP_NUM_THREADS), and a metrics port of its own, of which this program shows one page.
Signals are passed on. As soon as a slot fails, all are ended, with its exit code.
"""

EXAMPLE = """\
example:
  imagenet-slots --slots 2 -- imagenet-train --kv-store horovod --dataset data/digits
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of `imagenet-slots`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--slots", type=types.count, required=True, metavar="N", help="as HOROVOD_LOCAL_SIZE says"
    )
    parser.add_argument(
        "--join-timeout",
        type=kinds.amount_above_zero,
        default=900.0,
        metavar="SECONDS",
        help="to wait for the rendezvous (default: 900)",
    )
    parser.add_argument(
        "--termination-grace",
        type=kinds.amount,
        default=30.0,
        metavar="SECONDS",
        help="that the others have to end after a slot has failed (default: 30)",
    )
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="program and its arguments")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `imagenet-slots`; returns the exit code."""
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

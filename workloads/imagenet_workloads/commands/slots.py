"""`imagenet-slots`: runs the slots of a pod, each a process of one training.

The command line of `slots`.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import SLOTS
from imagenet_workloads.process.program import run_program

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
    built = parser(SLOTS, description=DESCRIPTION, epilog=EXAMPLE, allow_abbrev=False)
    built.add_argument(
        "command", nargs="+", metavar="COMMAND", help="the program and its arguments"
    )
    return built


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-slots`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(SLOTS.name, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> int:
    from imagenet_workloads.slots import launch
    from imagenet_workloads.telemetry.event_log import log_readably

    log_readably()
    return launch(
        parsed.command, parsed.slots, parsed.join_timeout, parsed.termination_grace, os.environ
    )


if __name__ == "__main__":
    sys.exit(main())

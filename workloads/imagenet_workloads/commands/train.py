"""`imagenet-train`: the entry point of every pod of a training attempt, whatever its role.

The command line is `train.options`; what happens then is `train.program`, in a child process.
Import-light, since the operator's contract tests build this parser, and since until the child is
made a SIGTERM to PID 1 goes unheard.
"""

import argparse
import sys
from collections.abc import Sequence


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `imagenet-train`."""
    from imagenet_workloads.train import options

    return options.build_parser()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the role that DMLC_ROLE names, or train in this process alone; return the exit code."""
    from imagenet_workloads.train.init import run_in_child

    return run_in_child(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    from imagenet_workloads.train import options, program

    return program.run(options.parse(arguments))


if __name__ == "__main__":
    sys.exit(main())

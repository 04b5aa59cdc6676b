"""`imagenet-train`: the entry point of every pod of a training attempt, whatever its role.

The command line is `train.options`; what happens then is `train.program`. Import-light, since the
operator's contract tests build this parser.
"""

import argparse
import sys
from collections.abc import Sequence

from imagenet_workloads.train import options


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `imagenet-train`."""
    return options.build_parser()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the role that DMLC_ROLE names, or train in this process alone; return the exit code."""
    parsed = options.parse(arguments)
    from imagenet_workloads.train.program import run

    return run(parsed)


if __name__ == "__main__":
    sys.exit(main())

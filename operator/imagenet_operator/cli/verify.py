"""`imagenetctl verify RESULT`: trains from a checkpoint again, and compares every byte.

Runs `imagenet-verify`, a program of the workloads, in the environment of the result's framework.
"""

from __future__ import annotations

import argparse
import subprocess

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.argument_types import path
from imagenet_operator.cli.predict import framework_of
from imagenet_operator.clusters.local import environments

PROGRAM = "imagenet-verify"

_EXAMPLES = """examples:
  imagenetctl verify imagenet-work/jobs/digits/model
                                                    from the last checkpoint but one
  imagenetctl verify RESULT --checkpoint epoch-0003-batch-00000000
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "verify",
        help="train from a checkpoint again, and compare every byte",
        description="Train from a checkpoint to the next one again, and compare their receipts.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "result", type=path, metavar="RESULT", help="a job's folder, an attempt's or a result.json"
    )
    parser.add_argument(
        "--checkpoint", metavar="NAME", help="where to begin (default: the last possible one)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Verify; return the exit code."""
    environment = environments.of_framework(framework_of(arguments.result))
    program = environments.programs(environment).find(PROGRAM, trains=True)
    command = [str(program), str(arguments.result)]
    if arguments.checkpoint is not None:
        command += ["--checkpoint", arguments.checkpoint]
    code = subprocess.run(command, check=False).returncode
    return code if code in (exit_codes.SUCCESS, exit_codes.USAGE) else exit_codes.FAILED

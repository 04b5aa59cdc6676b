"""`imagenetctl verify RESULT`: trains steps from a checkpoint again, and compares bytes.

Runs `imagenet-verify`, a program of the workloads, in the environment of the result's framework
and strategy.
"""

from __future__ import annotations

import argparse
import subprocess

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.argument_types import path, whole
from imagenet_operator.cli.predict import framework_of, result_of
from imagenet_operator.clusters.local import environments

PROGRAM = "imagenet-verify"

_EXAMPLES = """examples:
  imagenetctl verify imagenet-work/jobs/digits/model
                                                    10 steps from the last possible checkpoint
  imagenetctl verify RESULT --next-checkpoint       from the last checkpoint but one
  imagenetctl verify RESULT --checkpoint epoch-0003-batch-00000000
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "verify",
        help="train from a checkpoint again, and compare every byte",
        description="Train some steps from a checkpoint again, and compare the receipts.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "result", type=path, metavar="RESULT", help="a job's folder, an attempt's or a result.json"
    )
    parser.add_argument(
        "--checkpoint", metavar="NAME", help="where to begin (default: the last possible one)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--steps", type=whole(1), metavar="K", help="steps from there to the receipt (default: 10)"
    )
    where.add_argument(
        "--next-checkpoint", action="store_true", help="train to the next checkpoint"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Verify; return the exit code."""
    result = arguments.result
    strategy = str(result_of(result).get("strategy", ""))
    environment = environments.of_framework(framework_of(result), strategy)
    program = environments.programs(environment).find(PROGRAM, trains=True)
    command = [str(program), str(arguments.result)]
    if arguments.checkpoint is not None:
        command += ["--checkpoint", arguments.checkpoint]
    if arguments.steps is not None:
        command += ["--steps", str(arguments.steps)]
    if arguments.next_checkpoint:
        command.append("--next-checkpoint")
    code = subprocess.run(command, check=False).returncode
    return code if code in (exit_codes.SUCCESS, exit_codes.USAGE) else exit_codes.FAILED

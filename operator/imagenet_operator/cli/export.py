"""`imagenetctl export RESULT`: writes a trained model in another format.

Runs `imagenet-export`, a program of the workloads, in the environment of the result's framework.
"""

from __future__ import annotations

import argparse
import subprocess

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.argument_types import path
from imagenet_operator.cli.predict import framework_of
from imagenet_operator.clusters.local import environments

PROGRAM = "imagenet-export"
FORMATS = ("safetensors", "torchscript", "onnx")

_EXAMPLES = """examples:
  imagenetctl export imagenet-work/jobs/digits/model --format onnx --check
                                                    write model.onnx beside the result
  imagenetctl export RESULT --format safetensors --into digits.safetensors
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "export",
        help="write a trained model in another format",
        description="Write the model that a job trained in another format.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "result", type=path, metavar="RESULT", help="a job's folder, an attempt's or a result.json"
    )
    parser.add_argument("--format", choices=FORMATS, required=True, help="the format of the file")
    parser.add_argument(
        "--into", type=path, metavar="FILE", help="the file (default: model.FORMAT by the result)"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="print the largest difference of the two models' outputs on 16 images",
    )
    parser.add_argument(
        "--dataset",
        type=path,
        metavar="FOLDER",
        help="a dataset with validation images for --check (default: the job's, if it is on the "
        "same volume, otherwise synthetic images)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Export; return the exit code."""
    environment = environments.of_framework(framework_of(arguments.result))
    program = environments.programs(environment).find(PROGRAM, trains=True)
    command = [str(program), str(arguments.result), "--format", arguments.format]
    for option, file in (("--into", arguments.into), ("--dataset", arguments.dataset)):
        command += [] if file is None else [option, str(file)]
    if arguments.check:
        command.append("--check")
    code = subprocess.run(command, check=False).returncode
    return code if code in (exit_codes.SUCCESS, exit_codes.USAGE) else exit_codes.FAILED

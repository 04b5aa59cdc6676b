"""`imagenetctl dataset COMMAND …`: looks after prepared datasets in folders and buckets.

Runs `imagenet-dataset`, a program of the workloads, with the same arguments. `--secret` names the
folder with the keys of the bucket.
"""

from __future__ import annotations

import argparse
import os
import subprocess

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.argument_types import not_empty, path
from imagenet_operator.clusters.local import environments
from imagenet_spec.frameworks import DEFAULT_FRAMEWORK
from imagenet_spec.names import IMAGENET_CREDENTIALS

PROGRAM = "imagenet-dataset"

_EXAMPLES = """examples:
  imagenetctl dataset list volume
  imagenetctl dataset publish volume/datasets/KEY s3://datasets/imagenet --secret keys
  imagenetctl dataset verify s3://datasets/imagenet --endpoint https://s3.example.com --secret keys
  imagenetctl dataset fetch s3://datasets/imagenet folder --secret keys
  imagenetctl dataset delete volume/datasets/KEY --yes
"""

_PLACES = {
    "list": "a volume's folder, or a prefix",
    "show": "a dataset",
    "verify": "a dataset",
    "publish": "a sealed dataset's folder, and s3://BUCKET/PREFIX",
    "fetch": "a published dataset, and a folder",
    "delete": "a dataset",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "dataset",
        help="list, verify, publish, fetch and delete prepared datasets",
        description="Look after prepared datasets: folders, and s3://BUCKET/PREFIX.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for name, places in _PLACES.items():
        command = commands.add_parser(name, help=places)
        count = len(places.split(", and "))
        command.add_argument("places", type=not_empty, nargs=count, metavar="ADDRESS", help=places)
        command.add_argument("--endpoint", metavar="URL", help="the S3 API (default: that of AWS)")
        command.add_argument("--region", metavar="NAME", help="of the bucket")
        command.add_argument(
            "--secret", type=path, metavar="FOLDER", help="a file for each key of the bucket"
        )
        if name == "delete":
            command.add_argument("--yes", action="store_true", help="delete it")
    parser.set_defaults(run=run, yes=False)


def run(arguments: argparse.Namespace) -> int:
    """Run the program; return the exit code."""
    environment = environments.of_framework(DEFAULT_FRAMEWORK)
    program = environments.programs(environment).find(PROGRAM, trains=False)
    command = [str(program), arguments.command, *arguments.places]
    command += ["--yes"] if arguments.yes else []
    for option in ("endpoint", "region"):
        value = getattr(arguments, option)
        command += [] if value is None else [f"--{option}={value}"]
    variables = dict(os.environ)
    if arguments.secret is not None:
        variables[IMAGENET_CREDENTIALS] = str(arguments.secret)
    code = subprocess.run(command, env=variables, check=False).returncode
    return code if code in (exit_codes.SUCCESS, exit_codes.USAGE) else exit_codes.FAILED

"""`imagenetctl logs NAME`: the logs of a job's pods, followed over its restarts."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO, get_args

from imagenet_operator.cli import exit_codes, places
from imagenet_operator.cli.arguments import Command, path, whole
from imagenet_operator.clusters.interface import LocalError
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.names import MemberRole

_EXAMPLES = """examples:
  imagenetctl logs digits
  imagenetctl logs resnet50 -n vision -f
  imagenetctl logs resnet50 -n vision -f --preparation
  imagenetctl logs resnet50 -n vision --role server --index 1 --attempt 2
  imagenetctl logs resnet50 -n vision --all --to logs

Without a choice it is the worker of rank 0. Each line begins with the name of its pod.
"""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="show or follow the logs of a job",
        description="Show the logs of a job's pods. With --follow: wait until there are pods, and "
        "go on with the next attempt, until the job has ended.",
        examples=_EXAMPLES,
    )
    places.add_name(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    parser.add_argument("--role", choices=get_args(MemberRole), help="of members with this role")
    parser.add_argument("--index", type=whole(0), metavar="N", help="of this member of its role")
    parser.add_argument("--all", action="store_true", help="of every member of the attempt")
    parser.add_argument(
        "--preparation", action="store_true", help="of the pods that prepare the dataset"
    )
    parser.add_argument(
        "--attempt", type=whole(0), metavar="N", help="of this attempt (default: the current one)"
    )
    parser.add_argument(
        "--to",
        type=path,
        metavar="DIR",
        help="write a file POD.log for each pod into this folder, and print nothing",
    )
    places.add_image(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the logs, or write them into files."""
    is_of_one = arguments.role is not None or arguments.index is not None
    if arguments.preparation + arguments.all + is_of_one > 1:
        raise ImageNetJobError("--all, --preparation, and --role with --index: write one of them")
    if arguments.preparation and arguments.attempt is not None:
        raise ImageNetJobError("--attempt: the preparation has no attempts; leave it out")
    with places.opened(arguments) as client, ExitStack() as stack:
        written: dict[str, TextIO] = {}
        for line in client.logs(
            arguments.name,
            follow=arguments.follow,
            role=arguments.role or "worker",
            index=arguments.index,
            all=arguments.all,
            preparation=arguments.preparation,
            attempt=arguments.attempt,
            image=arguments.image,
            say=lambda said: print(said, file=sys.stderr, flush=True),
        ):
            if arguments.to is None:
                print(f"{line.pod}  {line.text}", flush=arguments.follow)
                continue
            if line.pod not in written:
                written[line.pod] = stack.enter_context(_file(arguments.to, line.pod))
            print(line.text, file=written[line.pod])
    for pod in written:
        print(arguments.to / f"{pod}.log")
    return exit_codes.SUCCESS


def _file(folder: Path, pod: str) -> TextIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / f"{pod}.log").open("w", encoding="utf-8")
    except OSError as error:
        raise LocalError(f"--to {folder}: cannot be written: {error.strerror}") from error

"""`imagenetctl render FILE`: prints the objects that a cluster would create, as a YAML stream.

For review, for policy checks, and to see what a field does. Values that only the cluster or the
index Job knows are placeholders, which the first lines explain.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import yaml

from imagenet_operator.cli import exit_codes, files
from imagenet_operator.cli.arguments import Command, not_empty, whole
from imagenet_operator.manifests import preview
from imagenet_operator.sdk import submission
from imagenet_spec.resource import ImageNetJob


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="print the objects that a cluster would create",
        description="Print the objects that a cluster would create for a job, in their order.",
        epilog=(
            f"exit codes: {exit_codes.SUCCESS} printed, "
            f"{exit_codes.USAGE} the manifest is not valid or cannot be read, "
            f"{exit_codes.ENVIRONMENT} the output cannot be written"
        ),
    )
    parser.add_argument(
        "file", type=not_empty, metavar="FILE", help="a manifest, or - for the standard input"
    )
    parser.add_argument(
        "--attempt",
        type=whole(0),
        default=0,
        metavar="N",
        help="the number of the attempt (default: 0)",
    )
    parser.add_argument(
        "--key",
        default=preview.PLACEHOLDER_KEY,
        help="the dataset's key, which the index Job reports (default: a placeholder)",
    )
    parser.add_argument(
        "--shards",
        type=whole(1),
        metavar="N",
        help="shards of both splits, which the index Job reports (default: those of training)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the manifests of every job in the file; return the exit code."""
    jobs = [submission.as_stored(job) for job in files.jobs(arguments.file)]
    rendered = [
        preview.everything(
            job,
            status=preview.placeholder_status(job, arguments.key, arguments.shards),
            attempt=arguments.attempt,
        )
        for job in jobs
    ]
    for job, manifests in zip(jobs, rendered, strict=True):
        for line in _placeholders(job, arguments):
            print(f"# {line}")
        yaml.dump_all(
            manifests, sys.stdout, files.Dumper, sort_keys=False, explicit_start=True, width=100
        )
    return exit_codes.SUCCESS


def _placeholders(job: ImageNetJob, arguments: argparse.Namespace) -> Iterator[str]:
    name = job.metadata.name
    yield f"The objects of {name}, in the order of creation."
    if job.metadata.uid == submission.PLACEHOLDER_UID:
        uid = submission.PLACEHOLDER_UID
        yield f"{uid} is set by the cluster; paths contain its first 8 characters."
    if name == f"{job.metadata.generate_name}{submission.GENERATED}":
        yield f"{submission.GENERATED} is chosen by the cluster."
    if job.spec.dataset.is_sealed:
        return
    if arguments.key == preview.PLACEHOLDER_KEY:
        yield f"{preview.PLACEHOLDER_KEY} is reported by {name}-index; give it with --key."
    if arguments.shards is None:
        yield f"{name}-pack also gets completions for validation; give all shards with --shards."

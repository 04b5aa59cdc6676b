"""Where the jobs of a verb are: in a working directory, or on a cluster.

Without --context and --namespace it is the working directory. `kubectl imagenet` has the cluster of
the current context in its place. Each answer says on the standard error which it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from imagenet_operator.cli.arguments import DEFAULT_WORKDIR, add_workdir, not_empty
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.sdk.blocking import Client
from imagenet_operator.sdk.errors import NotFound
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob

ON_CLUSTER = "on_cluster"
"""The default of a parser whose verbs speak of the cluster unless --workdir is given."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare --workdir, --context and --namespace."""
    add_workdir(parser, "working directory of the local run", default=None)
    parser.add_argument(
        "--context",
        type=not_empty,
        metavar="NAME",
        help="the cluster of this KUBECONFIG context, not this machine",
    )
    parser.add_argument(
        "-n",
        "--namespace",
        type=not_empty,
        help="the namespace on the cluster (default: the context's); without --context, on that of "
        "the current one",
    )


def add_name(parser: argparse.ArgumentParser) -> None:
    """Declare the name of a job, and where it is."""
    parser.add_argument("name", type=not_empty, metavar="NAME", help="the job's name")
    add_options(parser)


def add_image(parser: argparse.ArgumentParser, *, of_job: bool = True) -> None:
    """Declare --image, for a pod that serves the results of a job or another claim."""
    release = "the preparation image of this release"
    default = f"that of the job's pods, else {release}" if of_job else release
    parser.add_argument(
        "--image",
        type=not_empty,
        metavar="IMAGE",
        help=f"the image of the pod that serves the claim (default: {default})",
    )


def is_local(arguments: argparse.Namespace) -> bool:
    """Whether the options name a working directory; a cluster as well is an error."""
    names_cluster = arguments.context is not None or arguments.namespace is not None
    if arguments.workdir is not None and names_cluster:
        option = "--context" if arguments.context is not None else "--namespace"
        raise ImageNetJobError(f"--workdir and {option}: write one of the two")
    is_default = not getattr(arguments, ON_CLUSTER, False)
    return not names_cluster and (is_default or arguments.workdir is not None)


def workdir_of(arguments: argparse.Namespace) -> Path:
    """Return the working directory of jobs on this machine."""
    return arguments.workdir or DEFAULT_WORKDIR


@contextmanager
def opened(arguments: argparse.Namespace, written: str | None = None) -> Iterator[Client]:
    """Yield the client of the place that the options name, and say which it is.

    `written` is the namespace that a manifest names.
    """
    if is_local(arguments):
        client: Client = Client.local(workdir_of(arguments))
    else:
        namespace = arguments.namespace or written
        client = Client(context=arguments.context, namespace=namespace)
    with client:
        print(f"in {client.place}:", file=sys.stderr, flush=True)
        yield client


def read(names: Sequence[str], arguments: argparse.Namespace) -> list[ImageNetJob]:
    """Return the jobs of these names.

    For `report` and `compare`, whose exit codes are older than that of a job that is not there.
    """
    try:
        with opened(arguments) as client:
            return [client.get(name) for name in names]
    except NotFound as error:
        kind = LocalError if is_local(arguments) else ImageNetJobError
        raise kind(str(error)) from error

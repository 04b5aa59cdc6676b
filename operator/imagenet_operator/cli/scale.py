"""`imagenetctl scale FILE`: runs one job with several workers or GPUs, strategies and networks.

`scaling` computes the points and the table. The points run one after the other, on this machine
(`sweep`, which also has the report) or on a cluster (`sweep_on_cluster`). The only state is the
jobs themselves, so an interrupted sweep can be resumed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TypeVar

from imagenet_operator.cli import local_resources, run
from imagenet_operator.cli.arguments import Command, add_job_file
from imagenet_operator.cli.sweep import Here, Report, Runner
from imagenet_operator.scaling import points, variants
from imagenet_operator.sdk import submission
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import Manifest

Item = TypeVar("Item")

_EXAMPLES = """examples:
  imagenetctl scale examples/digits.yaml --workers 1,2
  imagenetctl scale job.yaml --workers 1,2,4 --strategies parameterServer,horovod
  imagenetctl scale job.yaml --workers 2 --strategies parameterServer:dist_async,horovod:TensorFlow
  imagenetctl scale job.yaml --weak --gpus 1,2,4,8 --networks alexnet,inception-v3,resnet-152
  imagenetctl scale job.yaml --weak --gpus 0 --workers 1,2 --networks alexnet,resnet-152
  imagenetctl scale job.yaml --workers 4,8,16 --context production

The global batch (batchSize) is the same at every point: strong scaling. With --weak, the batch of
each worker or GPU is the same: batchSize is that of the manifest's own number of them. With --gpus,
each worker has the manifest's GPUs if these divide the number, else one worker has all. All points
share one dataset. The table is WORKDIR/scaling/NAME.csv and NAME.md, the plot NAME.png. The same
command resumes an interrupted sweep; points that are done do not run again.
"""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        sweep,
        summary="run a job with 1, 2, 4… workers or GPUs and tabulate the speedup",
        description="Run one ImageNetJob with several numbers of workers or GPUs and strategies, "
        "and compare speed and accuracy in a table and a plot.",
        examples=_EXAMPLES,
    )
    add_job_file(parser)
    _add_points(parser)
    parser.add_argument(
        "--context",
        metavar="NAME",
        help="run on the cluster of this KUBECONFIG context, not on this machine",
    )
    parser.add_argument(
        "--namespace",
        help="the namespace on the cluster (default: the manifest's, else the context's)",
    )
    local_resources.add_options(parser, gpus=False)
    parser.set_defaults(gpus=None)


def _add_points(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=_numbers,
        metavar="N,N…",
        help="the numbers of workers, such as 1,2,4",
    )
    parser.add_argument(
        "--gpus",
        type=_gpus,
        dest="gpu_numbers",
        metavar="N,N…",
        help="in place of --workers the numbers of GPUs, such as 1,2,4,8; with --workers only 0: "
        "train on CPUs, as a stand-in for GPUs",
    )
    parser.add_argument(
        "--strategies",
        type=_list_of(variants.read),
        metavar="NAME,NAME…",
        help="strategies to compare, each KIND, KIND:FRAMEWORK or parameterServer:KVSTORE "
        "(default: that of the manifest)",
    )
    parser.add_argument(
        "--networks",
        type=_list_of(variants.read_network),
        default=(),
        metavar="NAME,NAME…",
        help="networks to compare, each NETWORK or NETWORK-LAYERS such as resnet-50 "
        "(default: that of the manifest)",
    )
    parser.add_argument(
        "--weak",
        action="store_true",
        help="keep the batch of each worker or GPU at every point, not the global batch",
    )


def sweep(arguments: argparse.Namespace) -> int:
    """Run the sweep; return the exit code."""
    job = run.read(arguments.file)
    manifest = job.to_manifest()
    chosen = arguments.strategies or (variants.own(manifest),)
    try:
        sweep = points.sweep(
            manifest,
            _sizes(arguments, manifest),
            chosen,
            submission.problems,
            models=arguments.networks,
            is_weak=arguments.weak,
        )
    except points.InvalidSweep as error:
        raise ImageNetJobError(f"{arguments.file}: {error}") from error
    folder = local_resources.resolved(arguments.workdir) / "scaling"
    report = Report(folder, str(manifest["metadata"]["name"]), arguments.output, sweep.points)
    for sentence in sweep.left_out:
        report.say(sentence)
    is_written = "namespace" in job.metadata.model_fields_set
    runner = _runner(arguments, manifest, job.metadata.namespace if is_written else None)
    runner.get_ready(sweep.points)
    for number, point in enumerate(sweep.points, start=1):
        report.say(f"point {number} of {len(sweep.points)}: {point} ({point.name})")
        outcome = runner.run(point)
        report.point(outcome)
        if outcome.is_interrupted:
            break
    return report.conclude(runner.remedy)


def _sizes(arguments: argparse.Namespace, manifest: Manifest) -> list[tuple[points.Size, ...]]:
    workers, gpus = arguments.workers, arguments.gpu_numbers
    if workers is None and gpus is None:
        raise ImageNetJobError("--workers or --gpus is missing; write --workers 1,2,4")
    if gpus == (points.CPUS,):
        if workers is None:
            raise ImageNetJobError("--gpus 0: add the numbers of workers, such as --workers 1,2")
        return points.sizes_of_workers(workers, on_cpus=True)
    if workers is None:
        return points.sizes_of_gpus(manifest, gpus)
    if gpus is not None:
        raise ImageNetJobError(
            "--gpus and --workers: write one of the two; each worker has the manifest's GPUs"
        )
    return points.sizes_of_workers(workers)


def _runner(arguments: argparse.Namespace, manifest: Manifest, written: str | None) -> Runner:
    if arguments.context is None:
        if arguments.namespace is not None:
            raise ImageNetJobError("--namespace: only a cluster has namespaces; add --context")
        return Here(
            local_resources.from_options(arguments), points.shared_claim(manifest), arguments.output
        )
    if arguments.volume or arguments.secret:
        raise ImageNetJobError(
            "--volume and --secret are options of a run on this machine; leave them out"
        )
    # Imported here, because other commands need no API client and would start more slowly.
    from imagenet_operator.cli.sweep_on_cluster import OnCluster
    from imagenet_operator.clusters.kubernetes import login

    found = login.of_context(arguments.context, os.environ)
    namespace = arguments.namespace or written or found.namespace
    return OnCluster(found, namespace, manifest, arguments.context)


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of workers; write 1,2,4")
    return tuple(int(part) for part in parts)


def _gpus(text: str) -> tuple[int, ...]:
    try:
        return (points.CPUS,) if text == "0" else _numbers(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of GPUs; write 1,2,4, or 0 for CPUs"
        ) from error


def _list_of(read: Callable[[str], Item]) -> Callable[[str], tuple[Item, ...]]:
    def items(text: str) -> tuple[Item, ...]:
        try:
            return tuple(read(part) for part in dict.fromkeys(text.split(",")))
        except ImageNetJobError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return items

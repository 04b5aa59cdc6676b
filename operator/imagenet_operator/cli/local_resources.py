"""The part of this machine that local runs may use: its options, annotations and checks.

`run` and `scale` have the same options for it, but for `--gpus`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from imagenet_operator.cli.arguments import add_output, add_workdir
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments, preflight
from imagenet_operator.clusters.local.machine import Gpus, Volumes, find_gpus
from imagenet_operator.manifests import rendezvous, volumes
from imagenet_operator.manifests import settings as manifests
from imagenet_operator.reconcile.types import ReconcileSettings
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.job import LOCAL_PATH, LOCAL_WEIGHTS


def add_options(parser: argparse.ArgumentParser, *, gpus: bool = True) -> None:
    """Declare the options of each command that runs jobs on this machine, for `from_options`.

    Without `gpus`, the command has another --gpus.
    """
    add_workdir(parser, "folder of data, results and logs")
    parser.add_argument(
        "--volume",
        type=mapping,
        action="append",
        default=[],
        metavar="CLAIM=PATH",
        help="the folder of a claim (default: WORKDIR/volumes/CLAIM); repeatable",
    )
    parser.add_argument(
        "--secret",
        type=mapping,
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="the folder of a Secret, with a file for each key; repeatable",
    )
    if gpus:
        parser.add_argument(
            "--gpus",
            type=_count,
            metavar="N",
            help="number of GPUs that pods may use (default: those of nvidia-smi)",
        )
    add_metrics_port(parser)
    add_output(parser, "one JSON object a line")


def add_metrics_port(parser: argparse.ArgumentParser) -> None:
    """Declare --metrics-port."""
    parser.add_argument(
        "--metrics-port",
        type=_port,
        default=manifests.DEFAULTS.metrics_port,
        metavar="N",
        help="port of each pod's metrics, on its own address (default: %(default)s)",
    )


def settings(metrics_port: int) -> ReconcileSettings:
    """Return the settings of a local run.

    Waits are shorter than in a cluster, because a user watches. Programs listen on loopback
    addresses, so no NetworkPolicy is needed.
    """
    return ReconcileSettings(
        restart_delay=timedelta(seconds=1),
        restart_delay_limit=timedelta(seconds=30),
        disruption_delay=timedelta(0),
        # The same command tries again.
        upload_limit=1,
        manifests=manifests.Settings(
            worker_grace_period_seconds=5,
            network_policy=False,
            metrics_port=metrics_port,
            one_node=True,
        ),
    )


@dataclass(frozen=True)
class LocalResources:
    """The part of this machine that jobs may use."""

    workdir: Path
    volumes: Volumes
    gpus: Gpus
    settings: ReconcileSettings


def from_options(arguments: argparse.Namespace) -> LocalResources:
    """Read the options of `add_options`.

    Raises:
        LocalError: No job can run on this machine or in this working directory.
    """
    if sys.platform != "linux":
        raise LocalError("a local run needs Linux: it uses its process and network interfaces")
    workdir = resolved(arguments.workdir)
    return LocalResources(
        workdir,
        Volumes(
            workdir / "volumes",
            _folders("--volume", arguments.volume),
            _folders("--secret", arguments.secret),
        ),
        Gpus(find_gpus(arguments.gpus, os.environ, Path("/dev"))),
        settings(arguments.metrics_port),
    )


def _folders(option: str, mappings: Sequence[tuple[str, Path]]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name, folder in mappings:
        if name in found:
            raise LocalError(
                f"{option} {name} is given twice, as {found[name]} and {folder}; give it once"
            )
        found[name] = folder
    return found


def resolved(workdir: Path) -> Path:
    """Return the working directory as an absolute path.

    Raises:
        LocalError: Its links are broken, or it is relative to a folder that was deleted.
    """
    try:
        # Links that lead to themselves are an error of `stat` on every Python, and of `resolve` on
        # Python 3.11 and 3.12 alone.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            workdir.stat()
        return workdir.resolve()
    except OSError as error:
        raise LocalError(
            f"cannot find the working directory {workdir}: {error}; name another one with --workdir"
        ) from error


def check(
    job: ImageNetJob, resources: LocalResources, promised: frozenset[str] = frozenset()
) -> preflight.Needs:
    """Check that this machine has all that a job needs, and return what it needs.

    The folders of `promised` claims will exist when the job starts.
    """
    wanted = preflight.needs(job, resources.settings.manifests)
    wanted = replace(wanted, claims=wanted.claims - promised)
    environments.check_framework(job)
    preflight.check(wanted, resources.gpus.capacity, resources.volumes, programs(job))
    return wanted


def check_mapped(jobs: Iterable[ImageNetJob], resources: LocalResources) -> None:
    """Check that each --volume and --secret names a claim or Secret of one of the jobs."""
    wanted = [preflight.needs(job, resources.settings.manifests) for job in jobs]
    preflight.check_mapped(
        frozenset().union(*(needs.mounted for needs in wanted)),
        frozenset().union(*(needs.secrets for needs in wanted)),
        resources.volumes,
    )


def get_ready(jobs: Sequence[ImageNetJob], resources: LocalResources, claim: str | None) -> None:
    """Check jobs that share a dataset, then create the folder of its claim.

    Raises:
        ImageNetJobError: One cannot run; nothing was created.
    """
    check_mapped(jobs, resources)
    for job in jobs:
        check(job, resources, frozenset() if claim is None else frozenset({claim}))
    if claim is not None:
        resources.volumes.provision(claim)


def programs(job: ImageNetJob) -> environments.Programs:
    """Return the programs of a job's pods."""
    return environments.programs(environments.of_job(job), command=environments.command_of(job))


def apply_annotations(job: ImageNetJob, file: str, resources: LocalResources) -> LocalResources:
    """Return the resources with the folder of the images, and copy the weights to their volume.

    `imagenetctl init` writes the annotations, relative to the manifest. A cluster ignores them:
    there, claims have the images and the weights.
    An option --volume of the source's claim precedes them.

    Raises:
        LocalError: A folder or file does not exist, or the weights cannot be copied.
    """
    beside = Path() if file == "-" else Path(file).resolve().parent
    annotations, claim = job.metadata.annotations, job.spec.dataset.source.fields.claim
    given = annotations.get(LOCAL_PATH)
    if given and claim is not None and claim not in resources.volumes.mapped:
        folder = (beside / given).resolve()
        if not folder.is_dir():
            raise LocalError(
                f"metadata.annotations[{LOCAL_PATH}]: {folder} is not a folder; correct it, or "
                f"name the folder with --volume {claim}=PATH"
            )
        resources = replace(resources, volumes=resources.volumes.with_folder(claim, folder))
    weights, wanted = annotations.get(LOCAL_WEIGHTS), job.spec.training.model.pretrained
    output = volumes.output_claim(job)
    if weights and wanted is not None and output is not None:
        _copy((beside / weights).resolve(), resources.volumes.path(output) / wanted)
    return resources


def _copy(source: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.part")
    try:
        given = source.stat()
        if target.exists():
            copied = target.stat()
            if (copied.st_size, copied.st_mtime_ns) == (given.st_size, given.st_mtime_ns):
                return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, partial)
        partial.replace(target)
    except OSError as error:
        raise LocalError(
            f"metadata.annotations[{LOCAL_WEIGHTS}]: cannot copy {source} to {target}: "
            f"{error.strerror}"
        ) from error


def mapping(text: str) -> tuple[str, Path]:
    """Read NAME=FOLDER, of a folder that exists."""
    claim, equals, path = text.partition("=")
    if not (claim and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH")
    try:
        folder = Path(path).resolve()
        reason = "" if folder.is_dir() else "is not a folder"
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
        reason = f"is not a folder that can be used: {error}"
    if reason:
        raise argparse.ArgumentTypeError(f"{path!r} {reason}")
    return claim, folder


def _port(text: str) -> int:
    own = (rendezvous.RENDEZVOUS_PORT, rendezvous.MEMBER_PORT)
    if not (text.isdecimal() and 1024 <= int(text) <= 65535) or int(text) in own:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a port for metrics; write 1024 to 65535, and not "
            f"{' or '.join(map(str, own))}, where members meet"
        )
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs; write 0 or more")
    return int(text)

"""`imagenetctl run FILE`: a job on this machine, from the raw archive to the trained model.

Reads the manifest, checks that the machine can do it, opens the working directory, and lets
`clusters.local.runner` work until the job is finished; shows how far it is, and what it came to.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from imagenet_operator.api import ImageNetJob
from imagenet_operator.cli import display as displays
from imagenet_operator.cli import exit_codes, files, result
from imagenet_operator.cli.display import Display, JsonLines
from imagenet_operator.cli.interrupts import Interrupts
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import (
    addresses,
    environments,
    gpus,
    pods,
    preflight,
    runner,
)
from imagenet_operator.clusters.local.cluster import LocalCluster
from imagenet_operator.clusters.local.kubelet import Machine
from imagenet_operator.clusters.local.state import JobFolder
from imagenet_operator.clusters.local.volumes import Volumes
from imagenet_operator.errors import ImageNetJobError
from imagenet_operator.manifests import rendezvous
from imagenet_operator.manifests import settings as manifests
from imagenet_operator.reconcile.types import ReconcileSettings

DEFAULT_WORKDIR = Path("imagenet-work")
_GRACE_SECONDS = 20.0
"""The grace period of a pod after Ctrl-C. Its peers still run, so a worker can save."""

_OTHER_PORT = "stop that program, or let the pods use another port with --metrics-port"

_EXAMPLES = """examples:
  imagenetctl run examples/digits.yaml
  imagenetctl run job.yaml --workdir /data/work --volume raw=/data/archives
  imagenetctl run job.yaml --output json | jq 'select(.type == "result") | .validation.top1'

The working directory keeps everything: volumes/CLAIM is the folder of a claim, jobs/NAME/logs holds
a log for each pod. A run that was interrupted goes on when the same command is typed again; one
that had finished starts anew, and reuses the dataset.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "run",
        help="run a job on this machine: each pod is a process",
        description="Run one ImageNetJob on this machine, with no cluster, container or root.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", metavar="FILE", help="the manifest of one ImageNetJob, or - for the input"
    )
    add_place_options(parser)
    parser.set_defaults(run=run)


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command that runs jobs on this machine; `place` reads them."""
    parser.add_argument(
        "--workdir",
        type=Path,
        default=DEFAULT_WORKDIR,
        metavar="DIR",
        help=f"where data, results and logs are kept (default: ./{DEFAULT_WORKDIR})",
    )
    parser.add_argument(
        "--volume",
        type=_mapping,
        action="append",
        default=[],
        metavar="CLAIM=PATH",
        help="the folder that a claim stands for (default: WORKDIR/volumes/CLAIM); repeatable",
    )
    parser.add_argument(
        "--secret",
        type=_mapping,
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="the folder that a Secret stands for, with a file for each key; repeatable",
    )
    parser.add_argument(
        "--gpus",
        type=_count,
        metavar="N",
        help="how many GPUs pods may use (default: those that nvidia-smi shows)",
    )
    parser.add_argument(
        "--metrics-port",
        type=_port,
        default=manifests.DEFAULTS.metrics_port,
        metavar="N",
        help="where each pod serves its metrics, on its own address (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text for people, or one JSON object a line for scripts (default: text)",
    )


def settings(metrics_port: int) -> ReconcileSettings:
    """What a local run has in place of an operator's configuration.

    Somebody is watching, and no API server has to be spared: shorter waits than in a cluster.
    Programs listen on loopback addresses, so that there is nothing for a NetworkPolicy to do. And a
    worker that lost a peer cannot save, however long its grace is.
    """
    return ReconcileSettings(
        restart_delay=timedelta(seconds=1),
        restart_delay_limit=timedelta(seconds=30),
        disruption_delay=timedelta(0),
        manifests=manifests.Settings(
            checkpoint_seconds=5, network_policy=False, metrics_port=metrics_port
        ),
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the job; return the exit code."""
    display = display_of(arguments.output)
    job, where = read(arguments.file), place(arguments)
    check_mapped([job], where)
    return _conclude(execute(job, where, display), display)


@dataclass(frozen=True)
class Place:
    """Where jobs run on this machine, and what of it they may use.

    Attributes:
        workdir: The working directory, an absolute path.
        volumes: The folders of claims.
        gpus: Which devices pods get.
        settings: Of the decisions.
    """

    workdir: Path
    volumes: Volumes
    gpus: gpus.Gpus
    settings: ReconcileSettings


def place(arguments: argparse.Namespace) -> Place:
    """What the options of `add_place_options` say.

    Raises:
        LocalError: No job can run on this machine, or in this working directory.
    """
    if sys.platform != "linux":
        raise LocalError("a local run needs Linux: it relies on its processes and addresses")
    workdir = resolved(arguments.workdir)
    return Place(
        workdir,
        Volumes(workdir / "volumes", dict(arguments.volume), dict(arguments.secret)),
        gpus.Gpus(gpus.find(arguments.gpus, os.environ, Path("/dev"))),
        settings(arguments.metrics_port),
    )


def resolved(workdir: Path) -> Path:
    """The working directory as an absolute path.

    Raises:
        LocalError: Its links lead nowhere, or it is relative to a folder that is gone.
    """
    try:
        return workdir.resolve()
    except (OSError, RuntimeError) as error:  # a loop is a RuntimeError
        raise LocalError(
            f"cannot find the working directory {workdir}: {error}; name another one with --workdir"
        ) from error


def display_of(output: str) -> Display:
    """How a run is shown: to people, or (json) to scripts."""
    return JsonLines(sys.stdout) if output == "json" else displays.of_people()


def check(
    job: ImageNetJob, where: Place, promised: frozenset[str] = frozenset()
) -> preflight.Needs:
    """What a job is going to need, all of which is there.

    Args:
        job: One that `read` would return.
        where: The part of this machine that it may use.
        promised: Claims whose folders will be there when the job starts.

    Raises:
        ImageNetJobError: Something is missing.
    """
    wanted = preflight.needs(job, where.settings.manifests)
    wanted = replace(wanted, claims=wanted.claims - promised)
    preflight.check(wanted, where.gpus.capacity, where.volumes, _programs(job))
    return wanted


def check_mapped(jobs: Iterable[ImageNetJob], where: Place) -> None:
    """See that each --volume and --secret is for a claim or Secret of one of the jobs.

    Raises:
        ImageNetJobError: One is not, or a job cannot run here at all.
    """
    wanted = [preflight.needs(job, where.settings.manifests) for job in jobs]
    preflight.check_mapped(
        frozenset().union(*(needs.mounted for needs in wanted)),
        frozenset().union(*(needs.secrets for needs in wanted)),
        where.volumes,
    )


def execute(job: ImageNetJob, where: Place, display: Display) -> result.Result:
    """Run a job to its end, or until the user interrupts.

    Args:
        job: One that `read` would return.
        where: The part of this machine that it may use.
        display: Shows how far it is.

    Raises:
        ImageNetJobError: It cannot run here.
    """
    started = time.monotonic()
    folder = JobFolder(where.workdir, job.metadata.name)
    folder.check()
    wanted = check(job, where)
    port = where.settings.manifests.metrics_port
    with folder.locked(), closing(addresses.claim(sorted(wanted.ports), {port: _OTHER_PORT})) as at:
        machine = _machine(job, folder, where, at)
        with _cluster(machine, folder, display) as cluster, Interrupts(cluster.wake) as interrupts:
            done = _work(job, folder, cluster, display, interrupts, where.settings)
        culprit = done.failure.culprit
        log = folder.logs / f"{culprit}.log" if culprit else None
        end = result.collect(done.job, where.volumes, time.monotonic() - started, log)
        if end.succeeded:
            _link_model(end, folder)
    return end


def _link_model(end: result.Result, folder: JobFolder) -> None:
    """Link the model; what is trained is no failure for want of a link."""
    try:
        result.link_model(end, folder.path / "model", folder.workdir)
    except LocalError as error:
        print(f"imagenetctl: warning: {error}", file=sys.stderr)


def read(file: str) -> ImageNetJob:
    """The one good job of a file, as new: whatever a server has added to it is left out.

    Raises:
        ImageNetJobError: There is none, or more than one, or one that cannot run here.
    """
    jobs = files.jobs(file)
    if len(jobs) > 1:
        raise ImageNetJobError(
            f"{file}: holds {len(jobs)} documents, and a local run takes one; "
            "write each job into a file of its own"
        )
    (job,) = jobs
    if not job.metadata.name:
        raise ImageNetJobError(
            f"{file}: metadata.generateName: only a cluster makes names; write metadata.name, "
            "under which a local run is found again"
        )
    if job.spec.run_policy.suspend:
        raise ImageNetJobError(
            f"{file}: spec.runPolicy.suspend is true, and a local run would wait for ever; "
            "write false or leave it out"
        )
    return files.as_written(job)


def _machine(
    job: ImageNetJob, folder: JobFolder, where: Place, block: addresses.AddressBlock
) -> Machine:
    """This machine, as far as the job may use it."""
    cores = len(os.sched_getaffinity(0))
    # A container would see all cores too, but rarely shares them with every other member.
    share = str(max(1, cores // job.spec.training.workers.replicas))
    return Machine(
        volumes=where.volumes,
        addresses=block,
        gpus=where.gpus,
        programs=_programs(job),
        environment={"OMP_NUM_THREADS": share, **pods.inherited(os.environ)},
        images=preflight.images(where.settings.manifests),
        logs=folder.logs,
        scratch=folder.scratch,
        slots=cores,
        shared=(folder.fileno(), block.fileno()),
    )


def _programs(job: ImageNetJob) -> environments.Programs:
    return environments.programs(environments.of_job(job))


@contextmanager
def _cluster(machine: Machine, folder: JobFolder, display: Display) -> Iterator[LocalCluster]:
    """The local cluster; whatever happens, none of its processes outlives it."""
    with closing(LocalCluster(machine, folder.save, display.tell)) as cluster:
        yield cluster


def _work(
    job: ImageNetJob,
    folder: JobFolder,
    cluster: LocalCluster,
    display: Display,
    interrupts: Interrupts,
    chosen: ReconcileSettings,
) -> runner.LocalRun:
    """Open the job and work on it until it is finished or interrupted."""
    opened = folder.open(job.to_manifest())
    job = ImageNetJob.model_validate(opened.job)
    with display:
        if opened.resumed:
            display.say(f"going on with {job.metadata.name}, which was interrupted")
        local_run = runner.LocalRun(cluster, job, chosen, display.show, lambda: bool(interrupts))
        asyncio.run(local_run.run())
        if interrupts:
            display.say("stopping; press Ctrl-C again to kill what still runs")
        cluster.shut_down(_GRACE_SECONDS, lambda: interrupts.count > 1)
    return local_run


def _conclude(end: result.Result, display: Display) -> int:
    """Tell what the run came to; return the exit code."""
    if end.succeeded:
        code, outcome = exit_codes.SUCCESS, "Succeeded"
    elif end.failure is not None:
        code, outcome = exit_codes.FAILED, "Failed"
    else:
        code, outcome = exit_codes.INTERRUPTED, "Interrupted"
    if isinstance(display, JsonLines):
        display.write(result.as_json(end, outcome))
    elif end.succeeded:
        print(result.as_text(end))
    elif end.failure is not None:
        print(f"imagenetctl: {result.failure_text(end)}", file=sys.stderr)
    else:
        print(
            "interrupted; type the same command again to go on from the newest checkpoint",
            file=sys.stderr,
        )
    return code


def _mapping(text: str) -> tuple[str, Path]:
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

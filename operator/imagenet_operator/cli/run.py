"""`imagenetctl run FILE`: runs a job on this machine, from the raw archive to the model.

Reads the manifest, checks the machine, locks the job's folder, and runs `clusters.local.runner`
until the job is finished. Shows progress and the result.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from contextlib import closing
from pathlib import Path

from imagenet_operator.api import ImageNetJob
from imagenet_operator.cli import display as displays
from imagenet_operator.cli import files, local_resources, result
from imagenet_operator.cli.arguments import Commands, add_command, add_job_file
from imagenet_operator.cli.display import Display, JsonLines
from imagenet_operator.cli.interrupts import Interrupts
from imagenet_operator.cli.local_resources import LocalResources
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import (
    pods,
    preflight,
    runner,
)
from imagenet_operator.clusters.local.cluster import LocalCluster
from imagenet_operator.clusters.local.machine import AddressBlock, Machine, claim_addresses
from imagenet_operator.clusters.local.state import JobFolder
from imagenet_operator.errors import ImageNetJobError
from imagenet_operator.reconcile.settings import ReconcileSettings
from imagenet_operator.reconcile.types import Event

_GRACE_PERIOD_SECONDS = 20.0
"""The grace period of a pod after Ctrl-C. Its peers still run, so a worker can save."""

_OTHER_PORT = "stop that program, or choose another port with --metrics-port"

_EXAMPLES = """examples:
  imagenetctl run examples/digits.yaml
  imagenetctl run job.yaml --workdir /data/work --volume raw=/data/archives
  imagenetctl run job.yaml --output json | jq 'select(.type == "result") | .validation.top1'

The working directory keeps all files: volumes/CLAIM is the folder of a claim, and jobs/NAME/logs
has a log for each pod. The same command resumes an interrupted run. After a finished run it starts
a new one, which reuses the dataset.
"""


def add_parser(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "run",
        run,
        summary="run a job on this machine: each pod is a process",
        description="Run one ImageNetJob on this machine, with no cluster, container or root.",
        examples=_EXAMPLES,
    )
    add_job_file(parser)
    local_resources.add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the job; return the exit code."""
    display = display_of(arguments.output)
    job, resources = read(arguments.file), local_resources.from_options(arguments)
    local_resources.check_mapped([job], resources)
    end = execute(job, resources, display)
    if isinstance(display, JsonLines):
        display.write(result.as_json(end))
    elif end.succeeded:
        print(result.as_text(end))
    elif end.failure is not None:
        print(f"imagenetctl: {result.failure_text(end)}", file=sys.stderr)
    else:
        print(result.interruption(end), file=sys.stderr)
    return result.EXIT_CODES[end.outcome]


def display_of(output: str) -> Display:
    """Return the display of a run: text for people, json for scripts."""
    return JsonLines(sys.stdout) if output == "json" else displays.of_people()


def execute(job: ImageNetJob, resources: LocalResources, display: Display) -> result.Result:
    """Run a job to its end, or until the user interrupts.

    Args:
        job: One that `read` would return.
        resources: The part of this machine that it may use.
        display: Shows the progress.

    Raises:
        ImageNetJobError: It cannot run on this machine.
    """

    def show_event(job: ImageNetJob, event: Event) -> None:
        if isinstance(display, JsonLines) or not result.is_failure(job, event):
            display.show_event(event)

    started = time.monotonic()
    folder = JobFolder(resources.workdir, job.metadata.name)
    folder.check()
    wanted = local_resources.check(job, resources)
    port = resources.settings.manifests.metrics_port
    with folder.locked(), closing(claim_addresses(sorted(wanted.ports), {port: _OTHER_PORT})) as at:
        machine = _machine(job, folder, resources, at)
        # All processes end with the cluster.
        with (
            closing(LocalCluster(machine, folder.save, show_event)) as cluster,
            Interrupts(cluster.wake) as interrupts,
        ):
            done = _work(job, folder, cluster, display, interrupts, resources.settings)
        culprit = done.failure.culprit
        log = folder.logs / f"{culprit}.log" if culprit else None
        end = result.collect(done.job, resources.volumes, time.monotonic() - started, log)
        if end.succeeded:
            try:
                result.link_model(end, folder.path / "model", folder.workdir)
            except LocalError as error:  # `predict` needs --model then
                print(f"imagenetctl: warning: {error}", file=sys.stderr)
        elif end.failure is None:
            # Workers have saved after the last reconcile.
            folder.save(result.with_checkpoint(end).to_manifest())
    return end


def read(file: str) -> ImageNetJob:
    """Return the one valid job of a file, without the fields that an API server adds.

    Raises:
        ImageNetJobError: There is none, more than one, or one that cannot run on this machine.
    """
    jobs = files.jobs(file)
    if len(jobs) > 1:
        raise ImageNetJobError(
            f"{file}: holds {len(jobs)} documents, and a local run needs exactly one; "
            "write each job into a separate file"
        )
    (job,) = jobs
    if not job.metadata.name:
        raise ImageNetJobError(
            f"{file}: metadata.generateName: only a cluster generates names; write metadata.name, "
            "by which a local run is found again"
        )
    if job.spec.run_policy.suspend:
        raise ImageNetJobError(
            f"{file}: spec.runPolicy.suspend is true, and a local run would never end; "
            "write false or leave it out"
        )
    return files.as_written(job)


def _machine(
    job: ImageNetJob, folder: JobFolder, resources: LocalResources, block: AddressBlock
) -> Machine:
    """Return the part of this machine that the job may use."""
    cores = len(os.sched_getaffinity(0))
    # In a cluster, the members rarely share one machine; here they share its cores.
    share = str(max(1, cores // job.spec.training.workers.replicas))
    return Machine(
        volumes=resources.volumes,
        addresses=block,
        gpus=resources.gpus,
        programs=local_resources.programs(job),
        environment={"OMP_NUM_THREADS": share, **pods.inherited(os.environ)},
        images=preflight.images(job, resources.settings.manifests),
        logs=folder.logs,
        scratch=folder.scratch,
        slots=cores,
        shared=(folder.fileno(), block.fileno()),
    )


def _work(
    job: ImageNetJob,
    folder: JobFolder,
    cluster: LocalCluster,
    display: Display,
    interrupts: Interrupts,
    chosen: ReconcileSettings,
) -> runner.LocalRun:
    """Reconcile the job until it is finished or interrupted."""
    opened = folder.open(job.to_manifest())
    job = ImageNetJob.model_validate(opened.job)
    with display:
        if opened.resumed:
            display.say(f"resuming {job.metadata.name}, which was interrupted")
        cpuinfo = Path("/proc/cpuinfo").read_text(errors="replace")
        if said := preflight.slow_precision(job, cpuinfo):
            display.say(f"warning: {said}")
        local_run = runner.LocalRun(cluster, job, chosen, display.show, lambda: bool(interrupts))
        asyncio.run(local_run.run())
        if interrupts:
            display.say("stopping; press Ctrl-C again to kill what still runs")
        cluster.shut_down(_GRACE_PERIOD_SECONDS, lambda: interrupts.count > 1)
    return local_run

"""`imagenetctl run FILE`: runs a job on this machine, from the raw archive to the model.

Reads the manifest, checks the machine, locks the job's folder, and runs `clusters.local.runner`
until the job is finished. Shows progress and the result.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from imagenet_operator.cli import (
    files,
    local_resources,
    overrides,
    programs,
    result,
)
from imagenet_operator.cli.arguments import Command, add_job_file
from imagenet_operator.cli.display import Display, JsonLines, display_of
from imagenet_operator.cli.epoch_log import EpochLog
from imagenet_operator.cli.interrupts import Interrupts
from imagenet_operator.cli.local_resources import LocalResources
from imagenet_operator.cli.overrides import Override
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import (
    environments,
    pods,
    preflight,
    runner,
)
from imagenet_operator.clusters.local.cluster import LocalCluster
from imagenet_operator.clusters.local.machine import AddressBlock, Machine, Volumes, claim_addresses
from imagenet_operator.clusters.local.state import JobFolder
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.reconcile.types import Event, ReconcileSettings
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.names import MODEL_LINK, PLOT_FILE
from imagenet_spec.resource import ImageNetJob

_GRACE_PERIOD_SECONDS = 20.0
"""The grace period of a pod after Ctrl-C. Its peers still run, so a worker can save."""

_OTHER_PORT = "stop that program, or choose another port with --metrics-port"

_EXAMPLES = """examples:
  imagenetctl run examples/digits.yaml
  imagenetctl run job.yaml --set spec.training.epochs=2 --set spec.training.batchSize=64
  imagenetctl run job.yaml --workdir /data/work --volume raw=/data/archives
  imagenetctl run job.yaml --output json | jq 'select(.type == "result") | .validation.top1'

The working directory keeps all files: volumes/CLAIM is the folder of a claim, and jobs/NAME/logs
has a log for each pod. The same command resumes an interrupted run. After a finished run it starts
a new one, which reuses the dataset.
"""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="run a job on this machine: each pod is a process",
        description="Run one ImageNetJob on this machine, with no cluster, container or root.",
        examples=_EXAMPLES,
    )
    add_job_file(parser)
    overrides.add_option(parser)
    local_resources.add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the job; return the exit code."""
    display = display_of(arguments.output)
    job = read(arguments.file, arguments.overrides)
    resources = local_resources.from_options(arguments)
    local_resources.check_mapped([job], resources)
    resources = local_resources.apply_annotations(job, arguments.file, resources)
    end = execute(job, resources, display)
    if isinstance(display, JsonLines):
        display.write(result.as_json(end))
    elif end.succeeded:
        print(result.as_text(end, _plot(end)))
    elif end.failure is not None:
        print(f"imagenetctl: {result.failure_text(end)}", file=sys.stderr)
    else:
        print(result.interruption(end), file=sys.stderr)
    return result.EXIT_CODES[end.outcome]


def _plot(end: result.Result) -> Path | None:
    """Draw the plot of a run that succeeded; None if it cannot be drawn here."""
    if end.model is None or importlib.util.find_spec("matplotlib") is None:
        return None
    picture = end.model / PLOT_FILE
    return picture if programs.draw(end.results, "--output", picture) is None else None


def execute(job: ImageNetJob, resources: LocalResources, display: Display) -> result.Result:
    """Run a job to its end, or until the user interrupts."""
    epochs = _Epochs(display, resources.volumes)

    def show_event(job: ImageNetJob, event: Event) -> None:
        epochs.show(job)
        folder.record(event)
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
            done = _work(job, folder, cluster, display, epochs, interrupts, resources.settings)
        culprit = done.failure.culprit
        log = folder.logs / f"{culprit}.log" if culprit else None
        end = result.collect(done.job, resources.volumes, time.monotonic() - started, log)
        if end.succeeded:
            try:
                result.link_model(end, folder.path / MODEL_LINK, folder.workdir)
            except LocalError as error:  # `predict` needs --model then
                print(f"imagenetctl: warning: {error}", file=sys.stderr)
        elif end.failure is None:
            # Workers have saved after the last reconcile.
            folder.save(result.with_checkpoint(end).to_manifest())
    return end


def read(file: str, changes: Sequence[Override] = ()) -> ImageNetJob:
    """Return the one valid job of a file, without the fields that an API server adds.

    Raises:
        ImageNetJobError: There is none, more than one, or one that cannot run on this machine.
    """
    jobs = files.jobs(file, changes)
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
    epochs: _Epochs,
    interrupts: Interrupts,
    chosen: ReconcileSettings,
) -> runner.LocalRun:
    def show(view: runner.View) -> None:
        epochs.show(view.job)
        display.show(view)

    opened = folder.open(job.to_manifest())
    job = ImageNetJob.model_validate(opened.job)
    with display:
        if opened.resumed and is_finished(job.status):
            display.say(f"{job.metadata.name} has trained; uploading its model")
        elif opened.resumed:
            display.say(f"resuming {job.metadata.name}, which was interrupted")
        cpuinfo = Path("/proc/cpuinfo").read_text(errors="replace")
        if said := preflight.slow_precision(job, cpuinfo):
            display.say(f"warning: {said}")
        local_run = runner.LocalRun(cluster, job, chosen, show, lambda: bool(interrupts))
        asyncio.run(local_run.run())
        if interrupts:
            display.say("stopping; press Ctrl-C again to kill what still runs")
        cluster.shut_down(_GRACE_PERIOD_SECONDS, lambda: interrupts.count > 1)
        epochs.show(local_run.job, is_end=True)
    return local_run


class _Epochs:
    """Shows the finished epochs of a job, those of earlier attempts included."""

    def __init__(self, display: Display, volumes: Volumes) -> None:
        self._display, self._volumes = display, volumes
        self._log: EpochLog | None = None

    def show(self, job: ImageNetJob, *, is_end: bool = False) -> None:
        """Show the epochs that are new. The files of a user's own program mean nothing here."""
        if environments.command_of(job) is not None:
            return
        if self._log is None:
            self._log = EpochLog(result.folder_of(job, self._volumes))
        for epoch in self._log.new(is_end):
            self._display.show_epoch(epoch, job.spec.training.epochs)

"""`imagenetctl submit FILE`: creates a job on a cluster, and follows it.

With --follow the display is that of `run`. Its bars are made from the job's status alone, so what
only the pods' metrics have is missing: the shards that are packed, and the batch of an epoch.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from imagenet_operator.cli import exit_codes, files, overrides, places
from imagenet_operator.cli.arguments import Command, add_job_file, add_output
from imagenet_operator.cli.display import Display, JsonLines, display_of
from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.local.runner import View
from imagenet_operator.manifests.dataset import FETCH, INDEX, PACK, SEAL
from imagenet_operator.reconcile.policies import job_status
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Event, Observed, PreparationJob
from imagenet_operator.sdk import submission
from imagenet_operator.sdk.blocking import Client
from imagenet_operator.sdk.errors import Forbidden, NotFound
from imagenet_operator.sdk.interface import JobEvent, in_words
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.figures import values

_EXAMPLES = """examples:
  imagenetctl submit job.yaml -n vision
  imagenetctl submit job.yaml --context production -n vision --follow
  imagenetctl submit job.yaml -n vision --dry-run --set spec.training.epochs=2

A job of the same name and spec is followed; one with another spec is refused with the difference.
Ctrl-C ends this program, and the job goes on.
"""

_STEPS = {"Fetching": FETCH, "Indexing": INDEX, "Packing": PACK, "Sealing": SEAL}
"""The reason of the condition DatasetReady → the Job that is at work."""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        submit,
        summary="create a job on a cluster, and follow it",
        description="Create one ImageNetJob on a cluster. Missing claims, Secrets and quota are "
        "said before.",
        examples=_EXAMPLES,
    )
    add_job_file(parser)
    places.add_options(parser)
    overrides.add_option(parser)
    parser.add_argument("--follow", action="store_true", help="show its progress until it ends")
    parser.add_argument(
        "--dry-run", action="store_true", help="only check that the cluster would accept it"
    )
    add_output(parser, "one JSON object a line")


def submit(arguments: argparse.Namespace) -> int:
    """Create the job; return the exit code."""
    if places.is_local(arguments):
        workdir = shlex.quote(str(places.workdir_of(arguments)))
        raise ImageNetJobError(
            f"submit is for clusters: add -n NAMESPACE or --context NAME; on this machine type "
            f"imagenetctl run {shlex.quote(arguments.file)} --workdir {workdir}"
        )
    jobs = files.jobs(arguments.file, arguments.overrides)
    if len(jobs) > 1:
        raise ImageNetJobError(f"{arguments.file}: holds {len(jobs)} documents; submit one job")
    (job,) = jobs
    is_written = "namespace" in job.metadata.model_fields_set
    with places.opened(arguments, job.metadata.namespace if is_written else None) as client:
        try:
            known = client.get(job.metadata.name) if job.metadata.name else None
        except NotFound:
            known = None
        # The pods of a job that exists take from the quota that they need.
        beside = Path() if arguments.file == "-" else Path(arguments.file).parent
        for text in client.check(job, beside) if known is None else ():
            print(f"imagenetctl: warning: {text}", file=sys.stderr)
        found = client.submit(job, dry_run=arguments.dry_run)
        name = found.metadata.name
        if known is not None:
            for problem in submission.differences(job, found):
                print(
                    f"imagenetctl: warning: {problem}; submit changes no job: kubectl edit "
                    f"imagenetjob {name}{client.jobs.options}",
                    file=sys.stderr,
                )
            said = f"{name} exists with this spec: {in_words(found)}"
        elif arguments.dry_run:
            said = f"{name} would be created"
        else:
            said = f"{name} is created"
        display = display_of(arguments.output)
        display.say(said)
        _print(found, display, name)
        if arguments.dry_run or not arguments.follow:
            return exit_codes.SUCCESS
        try:
            return follow(client, name, display)
        except KeyboardInterrupt:
            file, options = shlex.quote(arguments.file), client.jobs.options
            # The same job again only if neither the command nor the cluster has added to the file.
            is_whole = job.metadata.name and not arguments.overrides and arguments.file != "-"
            again = (
                f"follow it again with imagenetctl submit {file} --follow{options}"
                if is_whole
                else f"wait for its end with imagenetctl wait {name}{options}"
            )
            print(
                f"imagenetctl: {name} goes on; {again}, or read its log with "
                f"imagenetctl logs {name} -f{options}",
                file=sys.stderr,
            )
            return exit_codes.INTERRUPTED


def follow(client: Client, name: str, display: Display) -> int:
    """Show a job and its events until it has ended; return the exit code."""
    shown: set[JobEvent] = set()
    job = None
    said = ""
    with display:
        for job in client.watch(name):
            for event in _events(client, name):
                if event not in shown:
                    shown.add(event)
                    display.show_event(Event(event.type, event.reason, event.message))
            display.show(view_of(job))
            if job.status.training is None and (words := in_words(job)) != said:
                said = words
                display.say(words)
    assert job is not None
    if job_status.holds(job.status.conditions, "Failed"):
        _print(job, display, f"{name} failed: {in_words(job)}")
        return exit_codes.FAILED
    model = job.status.model
    where = "" if model is None else f"; the model is {model.place}"
    _print(job, display, f"{name} succeeded{where}")
    return exit_codes.SUCCESS


def _events(client: Client, name: str) -> tuple[JobEvent, ...]:
    """Return the events of a job; none if they cannot be had now, as they only explain it."""
    try:
        return client.events(name)
    except ClusterError as error:
        if isinstance(error, Forbidden) or client.jobs.is_passing(error):
            return ()
        raise


def _print(job: ImageNetJob, display: Display, text: str) -> None:
    """Print a text for people, or the state of a job as a JSON line."""
    if not isinstance(display, JsonLines):
        print(text, flush=True)
        return
    status, metadata = job.status, job.metadata
    document = {"phase": status.phase, "reason": status.reason}
    display.write(
        {"type": "job", "job": metadata.name, "namespace": metadata.namespace, **document}
    )


def view_of(job: ImageNetJob) -> View:
    """Return what a job's status says of its Jobs and figures, for a display."""
    status = job.status
    dataset, training = status.dataset, status.training
    ready = job_status.find(status.conditions, "DatasetReady")
    reason = "" if ready is None else ready.reason
    at_work = _STEPS.get(reason)
    roles = list(_STEPS.values())
    # A dataset that was prepared before has no Jobs.
    begun = roles if reason == "Sealed" else roles[: roles.index(at_work) + 1] if at_work else []
    jobs = {}
    for role in begun:
        is_done = role != at_work
        has_fetch = dataset is not None and dataset.fetch is not None
        # The status does not say how many shards are packed.
        if (role == FETCH and not has_fetch) or (role == PACK and not is_done):
            continue
        shards = status.listed.shards if role == PACK and status.listed is not None else 0
        jobs[role] = PreparationJob(role, role, role, complete=is_done, succeeded=shards)
    sample = None
    if training is not None and training.epoch is not None:
        sample = Sample(
            datetime.now(UTC),
            attempt=training.attempt,
            figures=values(training),
        )
    return View(job, Observed(jobs=jobs), sample)

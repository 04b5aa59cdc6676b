"""The verbs for jobs that exist: list, status, events, wait, suspend, resume and delete.

Each calls the client of a cluster or of a working directory. The table of `list` is that of
`status`, so that both have the same columns.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from imagenet_operator.cli import exit_codes, files, places
from imagenet_operator.cli.arguments import Command, not_negative
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.sdk.blocking import LocalClient
from imagenet_operator.sdk.interface import STATES, in_words
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob, table

FORMATS = ("text", "wide", "json", "yaml", "csv")


def add_list(command: Command) -> None:
    """Declare `list`."""
    parser = command.declare(
        list_jobs,
        summary="list the jobs of a working directory or a cluster",
        description="List jobs: phase, epoch, images/s, accuracy, remaining time, restarts, GPUs "
        "and their utilization.",
        examples="examples:\n  imagenetctl list\n  imagenetctl list -n vision\n"
        "  imagenetctl list --context production -n vision -o csv\n",
    )
    places.add_options(parser)
    add_format(parser)


def add_status(command: Command) -> None:
    """Declare `status`."""
    parser = command.declare(
        show_status,
        summary="show the state of a job",
        description="Show the phase of a job, why it is in it, and how far the training is.",
        examples="examples:\n  imagenetctl status digits\n"
        "  imagenetctl status resnet50 -n vision -o wide\n",
    )
    places.add_name(parser)
    add_format(parser)


def add_events(command: Command) -> None:
    """Declare `events`."""
    parser = command.declare(
        show_events,
        summary="show the events of a job",
        description="Show the events of a job, the oldest first.",
        examples="examples:\n  imagenetctl events resnet50 -n vision\n",
    )
    places.add_name(parser)
    add_format(parser, ("text", "json", "yaml"))


def add_wait(command: Command) -> None:
    """Declare `wait`."""
    parser = command.declare(
        wait,
        summary="wait until a job is in a state",
        description="Wait until a job is in a state: a condition or a phase. If the job ends "
        "before, this fails with the job's reason.",
        examples="examples:\n  imagenetctl wait digits\n"
        "  imagenetctl wait resnet50 -n vision --for Running --timeout 600\n",
    )
    places.add_name(parser)
    parser.add_argument(
        "--for",
        dest="state",
        choices=STATES,
        default="Succeeded",
        metavar="STATE",
        help=f"one of {', '.join(STATES)} (default: Succeeded)",
    )
    parser.add_argument(
        "--timeout",
        type=not_negative,
        metavar="SECONDS",
        help="the longest wait (default: no limit)",
    )


def add_suspend(command: Command) -> None:
    """Declare `suspend`."""
    parser = command.declare(
        suspend,
        summary="stop a job; it keeps its checkpoints",
        description="Suspend a job of a cluster: its pods end, and its nodes are free. A local run "
        "is interrupted, as by Ctrl-C.",
        examples="examples:\n  imagenetctl suspend resnet50 -n vision\n",
    )
    places.add_name(parser)


def add_resume(command: Command) -> None:
    """Declare `resume`."""
    parser = command.declare(
        resume,
        summary="let a suspended job go on",
        description="Let a suspended job of a cluster go on from its newest checkpoint. A local "
        "job goes on with its own command, imagenetctl run.",
        examples="examples:\n  imagenetctl resume resnet50 -n vision\n",
    )
    places.add_name(parser)


def add_delete(command: Command) -> None:
    """Declare `delete`."""
    parser = command.declare(
        delete,
        summary="delete a job, after saying what goes",
        description="Delete a job. First this says what goes and what stays, and asks.",
        examples="examples:\n  imagenetctl delete digits\n"
        "  imagenetctl delete resnet50 -n vision --yes\n",
    )
    places.add_name(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def add_format(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """Declare --output of a verb."""
    parser.add_argument(
        "-o",
        "--output",
        choices=formats,
        default="text",
        help=f"{', '.join(formats)} (default: text)",
    )


def list_jobs(arguments: argparse.Namespace) -> int:
    """Print the jobs."""
    with places.opened(arguments) as client:
        jobs = client.list()
        if arguments.output in ("json", "yaml"):
            _dump({"items": [job.to_manifest() for job in jobs]}, arguments.output)
        elif jobs or arguments.output == "csv":
            _print_table(jobs, arguments.output)
        elif isinstance(client, LocalClient):
            print(
                "no jobs; those of another working directory are listed by imagenetctl list "
                "--workdir DIR, those of a cluster by imagenetctl list -n NAMESPACE, or "
                "imagenetctl list --context NAME",
                file=sys.stderr,
            )
        else:
            print(
                "no jobs; those of another namespace are listed with -n NAMESPACE", file=sys.stderr
            )
    return exit_codes.SUCCESS


def show_status(arguments: argparse.Namespace) -> int:
    """Print the state of a job."""
    with places.opened(arguments) as client:
        job = client.get(arguments.name)
        if arguments.output in ("json", "yaml"):
            _dump(job.to_manifest(), arguments.output)
            return exit_codes.SUCCESS
        if arguments.output == "csv":
            _print_table([job], "csv")
            return exit_codes.SUCCESS
        columns = table.WIDE if arguments.output == "wide" else table.COLUMNS
        rows = [(head, value) for head, read in columns.items() if (value := read(job)) is not None]
        rows.append(("state", in_words(job).removeprefix("it is ")))
        if (standstill := client.standstill(job)) is not None:
            rows.append(("note", str(standstill)))
        if arguments.output == "wide":
            rows += [
                (item.type, " ".join(filter(None, (item.status, item.reason, item.message))))
                for item in job.status.conditions
            ]
        width = max(len(head) for head, _ in rows)
        print("\n".join(f"{head:<{width}}  {table.text(value)}" for head, value in rows))
    return exit_codes.SUCCESS


def show_events(arguments: argparse.Namespace) -> int:
    """Print the events of a job."""
    with places.opened(arguments) as client:
        events = client.events(arguments.name)
    if arguments.output != "text":
        documents = [
            {
                "time": event.time.isoformat(),
                "type": event.type,
                "reason": event.reason,
                "message": event.message,
                "count": event.count,
            }
            for event in events
        ]
        _dump({"items": documents}, arguments.output)
        return exit_codes.SUCCESS
    for event in events:
        times = f" ({event.count} times)" if event.count > 1 else ""
        at = event.time.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        print(f"{at}  {event.type}  {event.reason}: {event.message}{times}")
    return exit_codes.SUCCESS


def wait(arguments: argparse.Namespace) -> int:
    """Wait for a state; the exit code says how that ended."""
    with places.opened(arguments) as client:
        job = client.wait(arguments.name, arguments.state, arguments.timeout)
    print(f"{arguments.name}: {in_words(job)}")
    return exit_codes.SUCCESS


def suspend(arguments: argparse.Namespace) -> int:
    """Suspend a job."""
    with places.opened(arguments) as client:
        client.suspend(arguments.name)
        is_local = isinstance(client, LocalClient)
        job = client.get(arguments.name)
    if not is_local and is_finished(job.status):
        print(f"{_after_training(job)} is suspended")
        return exit_codes.SUCCESS
    said = "is interrupted; its process saves and ends" if is_local else "is being suspended"
    again = "imagenetctl run FILE" if is_local else f"imagenetctl resume {arguments.name}"
    print(f"{arguments.name} {said}; it goes on with {again}{client.jobs.options}")
    return exit_codes.SUCCESS


def resume(arguments: argparse.Namespace) -> int:
    """Let a job go on."""
    with places.opened(arguments) as client:
        client.resume(arguments.name)
        job = client.get(arguments.name)
    print(f"{_after_training(job) if is_finished(job.status) else arguments.name} goes on")
    return exit_codes.SUCCESS


def _after_training(job: ImageNetJob) -> str:
    return f"{job.metadata.name} trains no more, {in_words(job)}; an upload of its results"


def delete(arguments: argparse.Namespace) -> int:
    """Delete a job, after saying what goes."""
    with places.opened(arguments) as client:
        found = client.removal(arguments.name)
        lines = [*(f"goes:  {text}" for text in found.goes)]
        lines += [f"stays: {text}" for text in found.stays]
        print("\n".join(lines), flush=True)
        if not arguments.yes:
            if not sys.stdin.isatty():
                raise ImageNetJobError(
                    f"delete {arguments.name}: nothing is deleted without an answer; add --yes"
                )
            try:
                answer = input(f"delete {arguments.name}? [y/N] ")
            except EOFError:
                # Ctrl-D leaves the cursor behind the question.
                print()
                answer = ""
            if answer.strip().lower() not in ("y", "yes"):
                print("nothing is deleted")
                return exit_codes.SUCCESS
        client.delete(arguments.name)
    print(f"{arguments.name} is deleted")
    return exit_codes.SUCCESS


def _print_table(jobs: Sequence[ImageNetJob], output: str) -> None:
    columns = table.COLUMNS if output == "text" else table.WIDE
    heads = [head if output == "csv" else head.upper() for head in columns]
    if output == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows([read(job) for read in columns.values()] for job in jobs)
        return
    rows = [heads, *([table.text(read(job)) for read in columns.values()] for job in jobs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print("   ".join(cells).rstrip())


def _dump(document: Any, output: str) -> None:
    if output == "json":
        print(json.dumps(document))
    else:
        print(yaml.dump(document, Dumper=files.Dumper, sort_keys=False), end="")

"""`imagenetctl report NAME`: where the time of a job went, and what it cost.

Reads `status.time` of a job of the working directory, or of a cluster. `imagenet-plot`, a program
of the workloads, draws the plot, because this package does not require matplotlib. `report_page`
writes the page.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from imagenet_operator.cli import exit_codes, local_resources, places, programs, report_page
from imagenet_operator.cli.arguments import (
    Command,
    add_output,
    add_price,
    not_negative,
    path,
)
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_operator.reconcile.policies import time_account
from imagenet_operator.reconcile.policies.job_status import holds
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Status
from imagenet_spec.resource.time_status import PHASES, TimeStatus, seconds_of

_EXAMPLES = """examples:
  imagenetctl report digits
  imagenetctl report resnet50 -n vision
  imagenetctl report resnet50 --context production --price-per-gpu-hour 2.5 --watts-per-gpu 700
  imagenetctl report digits --output json
  imagenetctl report digits --plot time.png
  imagenetctl report digits --html digits.html     with curves, classes, mistakes and images
"""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="show where the time of a job went, its goodput and its cost",
        description="Show the seconds of a job by phase, its goodput, images, GPU-hours, cost and "
        "energy; with --html also its curves, data and mistakes.",
        examples=_EXAMPLES,
    )
    places.add_name(parser)
    add_price(parser)
    parser.add_argument(
        "--watts-per-gpu", type=not_negative, metavar="WATTS", help="power of a GPU"
    )
    add_output(parser, "a JSON object")
    parser.add_argument(
        "--plot", type=path, metavar="PNG", help="draw the phases into this file as well"
    )
    parser.add_argument(
        "--html",
        type=report_page.html_file,
        metavar="FILE",
        help="write the whole job into this .html file as well, which needs no network",
    )
    parser.add_argument(
        "--volume",
        type=local_resources.mapping,
        action="append",
        default=[],
        metavar="CLAIM=PATH",
        help="with --html, the folder of a claim if run had this option too; repeatable",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the report; return the exit code."""
    if arguments.volume and not places.is_local(arguments):
        option = "--namespace" if arguments.context is None else "--context"
        raise ImageNetJobError(f"--volume and {option}: write one of the two")
    (job,) = places.read([arguments.name], arguments)
    time = job.status.time
    if time is None:
        raise ImageNetJobError(
            f"{arguments.name}: status.time is empty; the operator has not reconciled the job, or "
            "is older than this field"
        )
    found = document(job, time, arguments.price_per_gpu_hour, arguments.watts_per_gpu)
    print(json.dumps(found) if arguments.output == "json" else text(found), flush=True)
    if arguments.plot is not None:
        programs.draw_document("--time", found, arguments.plot)
    if arguments.html is not None:
        if not places.is_local(arguments):
            contents = report_page.of_cluster(job, found)
        else:
            workdir = local_resources.resolved(places.workdir_of(arguments))
            folders = Volumes(workdir / "volumes", dict(arguments.volume))
            contents = report_page.of_machine(job, found, folders, workdir)
        report_page.write(contents, arguments.html)
    return exit_codes.SUCCESS


def document(
    job: ImageNetJob, time: TimeStatus, price: float | None = None, watts: float | None = None
) -> dict[str, Any]:
    """Return the report for scripts.

    The price is of a GPU for one hour, the watts are of a GPU; None leaves cost or energy out.
    """
    spent = seconds_of(time.phases)
    phases = {name: spent[name] for name in _ORDER if name in spent}
    is_lost = keeps_nothing(job.status, spent)
    lost = time_account.lost_steps(job.status)
    gpu_hours = time.gpu_hours or 0.0
    training = job.status.training
    loop_cpu = None if training is None else training.loop_cpu_seconds
    stall = None if training is None else training.checkpoint_stall_seconds
    return {
        "name": job.metadata.name,
        "phase": job.status.phase,
        "seconds": round(sum(phases.values()), 1),
        "phases": phases,
        "goodput": 0.0 if is_lost else time.goodput,
        **({"keepsNothing": True} if is_lost else {}),
        **({"lostStepSeconds": lost} if lost and not is_lost else {}),
        "images": images(job.status),
        "attempts": 0 if job.status.training is None else job.status.training.attempt + 1,
        **({} if loop_cpu is None else {"loopCpuSeconds": loop_cpu}),
        **({} if stall is None else {"checkpointStallSeconds": stall}),
        "gpuHours": gpu_hours,
        **({} if price is None else {"cost": round(gpu_hours * price, 2)}),
        **({} if watts is None else {"kilowattHours": round(gpu_hours * watts / 1000, 3)}),
    }


def keeps_nothing(status: Status, spent: dict[str, float]) -> bool:
    """Whether a job has trained steps, and neither a model nor a checkpoint holds any of them."""
    training = status.training
    return (
        bool(spent.get("stepping"))
        and not holds(status.conditions, "Succeeded")
        and status.phase != "Succeeded"
        and (training is None or training.checkpoint_epoch is None)
    )


def images(status: Status) -> int | None:
    """Return the images of all finished epochs; None if the status does not say."""
    training, dataset = status.training, status.dataset
    if training is None or dataset is None or training.finished_epochs is None:
        return None
    done = training.finished_epochs.partition("/")[0]
    return int(done) * dataset.images.train if done.isdecimal() else None


def text(report: dict[str, Any]) -> str:
    """Return the report for people."""
    whole = report["seconds"]
    rows = [
        (name, f"{seconds:,.1f} s", f"{seconds / whole:.1%}" if whole else "")
        for name, seconds in report["phases"].items()
    ]
    rows.append(("sum", f"{whole:,.1f} s", ""))
    wide, number = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"{name:<{wide}}  {spent:>{number}}  {part:>6}".rstrip() for name, spent, part in rows]
    totals = {
        "goodput": None if report["goodput"] is None else f"{report['goodput']:.1%}",
        "checkpoint": "none: no step is kept" if "keepsNothing" in report else None,
        "lost steps": f"{report['lostStepSeconds']:,.1f} s since the newest checkpoint"
        if "lostStepSeconds" in report
        else None,
        "images": None if report["images"] is None else f"{report['images']:,}",
        "attempts": str(report["attempts"]),
        "loop CPU": f"{1000 * report['loopCpuSeconds']:,.2f} ms a step"
        if "loopCpuSeconds" in report
        else None,
        "stall": f"{1000 * report['checkpointStallSeconds']:,.0f} ms a checkpoint"
        if "checkpointStallSeconds" in report
        else None,
        "GPU-hours": f"{report['gpuHours']:,.2f}",
        "cost": f"{report['cost']:,.2f}" if "cost" in report else None,
        "energy": f"{report['kilowattHours']:,.2f} kWh" if "kilowattHours" in report else None,
    }
    known = {name: value for name, value in totals.items() if value is not None}
    column = max(map(len, known))
    lines += ["", *(f"{name:<{column}}  {value}" for name, value in known.items())]
    return "\n".join(lines)


_OPERATOR_FIRST = ("queued", "queueing", "fetching", "preparing", "suspended", "pulling")
_ORDER = (*_OPERATOR_FIRST, *(name for name in PHASES if name not in _OPERATOR_FIRST))
"""Phases in the order of a job."""

"""`imagenetctl report NAME`: where the time of a job went, and what it cost.

Reads `status.time` of a job of the working directory, or of a cluster. `imagenet-plot`, a program
of the workloads, draws the plot, because this package does not require matplotlib.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from typing import Any

from imagenet_operator.api import ImageNetJob, Manifest, stored
from imagenet_operator.api.status import Status
from imagenet_operator.api.time_status import PHASES, TimeStatus, seconds_of
from imagenet_operator.cli import exit_codes, programs
from imagenet_operator.cli.arguments import (
    DEFAULT_WORKDIR,
    Commands,
    add_command,
    add_output,
    add_workdir,
    not_empty,
    path,
)
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.errors import ImageNetJobError
from imagenet_operator.reconcile.policies import time_account
from imagenet_operator.reconcile.policies.job_status import holds

_EXAMPLES = """examples:
  imagenetctl report digits
  imagenetctl report resnet50 --context production --namespace vision
  imagenetctl report resnet50 --context production --price-per-gpu-hour 2.5 --watts-per-gpu 700
  imagenetctl report digits --output json
  imagenetctl report digits --plot time.png
"""


def add_parser(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "report",
        run,
        summary="show where the time of a job went, its goodput and its cost",
        description="Show the seconds of a job by phase, its goodput, images, GPU-hours, cost and "
        "energy.",
        examples=_EXAMPLES,
    )
    parser.add_argument("name", type=not_empty, metavar="NAME", help="the job's name")
    add_workdir(parser, "working directory of the job's local run", default=None)
    parser.add_argument(
        "--context",
        metavar="NAME",
        help="read the job on the cluster of this KUBECONFIG context, not on this machine",
    )
    parser.add_argument("--namespace", help="the namespace on the cluster (default: the context's)")
    parser.add_argument(
        "--price-per-gpu-hour", type=_rate, metavar="PRICE", help="price of a GPU for one hour"
    )
    parser.add_argument("--watts-per-gpu", type=_rate, metavar="WATTS", help="power of a GPU")
    add_output(parser, "a JSON object")
    parser.add_argument(
        "--plot", type=path, metavar="PNG", help="draw the phases into this file as well"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the report; return the exit code."""
    job = _read(arguments)
    time = job.status.time
    if time is None:
        raise ImageNetJobError(
            f"{arguments.name}: status.time is empty; the operator has not reconciled the job, or "
            "is older than this field"
        )
    found = document(job, time, arguments.price_per_gpu_hour, arguments.watts_per_gpu)
    print(json.dumps(found) if arguments.output == "json" else text(found), flush=True)
    if arguments.plot is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(found, file)
            file.flush()
            reason = programs.draw("--time", file.name, "--output", arguments.plot)
        if reason is not None:
            raise LocalError(f"--plot: {reason}")
    return exit_codes.SUCCESS


def document(
    job: ImageNetJob, time: TimeStatus, price: float | None = None, watts: float | None = None
) -> dict[str, Any]:
    """Return the report for scripts.

    Args:
        job: With its status.
        time: Its account.
        price: Of a GPU for one hour; None leaves the cost out.
        watts: Of a GPU; None leaves the energy out.
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


def text(found: dict[str, Any]) -> str:
    """Return the report for people."""
    whole = found["seconds"]
    rows = [
        (name, f"{seconds:,.1f} s", f"{seconds / whole:.1%}" if whole else "")
        for name, seconds in found["phases"].items()
    ]
    rows.append(("sum", f"{whole:,.1f} s", ""))
    wide, number = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"{name:<{wide}}  {spent:>{number}}  {part:>6}".rstrip() for name, spent, part in rows]
    totals = {
        "goodput": None if found["goodput"] is None else f"{found['goodput']:.1%}",
        "checkpoint": "none: no step is kept" if "keepsNothing" in found else None,
        "lost steps": f"{found['lostStepSeconds']:,.1f} s since the newest checkpoint"
        if "lostStepSeconds" in found
        else None,
        "images": None if found["images"] is None else f"{found['images']:,}",
        "attempts": str(found["attempts"]),
        "loop CPU": f"{1000 * found['loopCpuSeconds']:,.2f} ms a step"
        if "loopCpuSeconds" in found
        else None,
        "stall": f"{1000 * found['checkpointStallSeconds']:,.0f} ms a checkpoint"
        if "checkpointStallSeconds" in found
        else None,
        "GPU-hours": f"{found['gpuHours']:,.2f}",
        "cost": f"{found['cost']:,.2f}" if "cost" in found else None,
        "energy": f"{found['kilowattHours']:,.2f} kWh" if "kilowattHours" in found else None,
    }
    known = {name: value for name, value in totals.items() if value is not None}
    column = max(map(len, known))
    lines += ["", *(f"{name:<{column}}  {value}" for name, value in known.items())]
    return "\n".join(lines)


_OPERATOR_FIRST = ("queued", "queueing", "fetching", "preparing", "suspended", "pulling")
_ORDER = (*_OPERATOR_FIRST, *(name for name in PHASES if name not in _OPERATOR_FIRST))
"""Phases in the order of a job."""


def _read(arguments: argparse.Namespace) -> ImageNetJob:
    if arguments.context is not None:
        if arguments.workdir is not None:
            raise ImageNetJobError("--workdir and --context: write one of the two")
        return asyncio.run(_on_cluster(arguments.context, arguments.namespace, arguments.name))
    if arguments.namespace is not None:
        raise ImageNetJobError("--namespace: only a cluster has namespaces; add --context")
    workdir = arguments.workdir or DEFAULT_WORKDIR
    file = workdir / "jobs" / arguments.name / "job.json"
    try:
        found: Manifest = json.loads(file.read_text(encoding="utf-8"))["job"]
    except FileNotFoundError as error:
        raise LocalError(
            f"{workdir} has no job {arguments.name!r}; name another working directory with "
            "--workdir, or a cluster with --context"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalError(f"cannot read {file}: {error}") from error
    return stored.read(found).job


async def _on_cluster(context: str, namespace: str | None, name: str) -> ImageNetJob:
    # Imported here, because other commands need no API client and would start more slowly.
    from imagenet_operator.clusters.kubernetes import login, objects
    from imagenet_operator.clusters.kubernetes.client import ApiError, Client

    found = login.of_context(context, os.environ)
    place = namespace or found.namespace
    async with Client(found) as client:
        try:
            return stored.read(await client.get(objects.JOB.path(place, name))).job
        except ApiError as error:
            if error.code != 404:
                raise
            raise ImageNetJobError(
                f"the namespace {place!r} of the context {context!r} has no job {name!r}; name "
                "another one with --namespace"
            ) from error


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0; write 2.5")
    return value

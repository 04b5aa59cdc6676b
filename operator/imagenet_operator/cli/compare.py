"""`imagenetctl compare A B…`: trainings beside each other, and what an accuracy cost in each.

Reads the logs of all attempts and `status.time` of jobs in the working directory (`curves`). A
cluster has the statuses alone, without what was before. `imagenet-plot` draws the curves.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imagenet_operator.cli import exit_codes, places, programs, report, result
from imagenet_operator.cli.arguments import (
    Command,
    add_output,
    add_price,
    not_empty,
    path,
)
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_operator.page.series import account_of
from imagenet_spec.curves import Curve, Point, common_accuracy, curve
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.events import attempt_folders, read_runs
from imagenet_spec.names import MODEL_LINK
from imagenet_spec.resource import ImageNetJob

_EXAMPLES = """examples:
  imagenetctl compare digits digits-large-batch
  imagenetctl compare a b c --to 0.75 --price-per-gpu-hour 2.5
  imagenetctl compare a b --plot compared.png
  imagenetctl compare a b --output json | jq '.reached'
  imagenetctl compare a b -n vision
"""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="compare trainings by accuracy, images, time and GPU-hours",
        description="Compare trainings: epochs, images, time, GPU-hours, accuracy and loss, and "
        "what it cost to reach an accuracy. Restarts and lost steps are part of the costs.",
        examples=_EXAMPLES,
    )
    parser.add_argument("names", type=not_empty, nargs="+", metavar="NAME", help="the jobs' names")
    places.add_options(parser)
    parser.add_argument(
        "--to",
        type=_share,
        metavar="ACCURACY",
        help="the validation top-1 accuracy, such as 0.75, whose costs are compared (default: the "
        "highest that all jobs reached)",
    )
    add_price(parser)
    add_output(parser, "a JSON object")
    parser.add_argument(
        "--plot",
        type=path,
        metavar="PNG",
        help="draw accuracy and loss by images, time and GPU-hours into this file as well",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison; return the exit code."""
    names: list[str] = arguments.names
    if len(set(names)) != len(names) or len(names) < 2:
        raise ImageNetJobError("compare: write the names of at least two different jobs")
    if not places.is_local(arguments):
        for option, value in (("--to", arguments.to), ("--plot", arguments.plot)):
            if value is not None:
                raise ImageNetJobError(
                    f"{option}: the status of a job on a cluster has its present figures and no "
                    "earlier epochs; leave the option out, or draw the folders of a mounted output "
                    "volume with imagenet-plot"
                )
    jobs = places.read(names, arguments)
    curves: list[Curve | None] = [None] * len(jobs)
    if places.is_local(arguments):
        curves = [_curve(job, places.workdir_of(arguments)) for job in jobs]
    found = document(jobs, curves, arguments.to, arguments.price_per_gpu_hour)
    print(json.dumps(found) if arguments.output == "json" else text(found), flush=True)
    if arguments.plot is not None:
        if not any(job["curve"] for job in found["jobs"]):
            raise LocalError("--plot: no job has finished an epoch, so there is nothing to draw")
        programs.draw_document("--compare", found, arguments.plot)
    return exit_codes.SUCCESS


def document(
    jobs: Sequence[ImageNetJob],
    curves: Sequence[Curve | None],
    to: float | None = None,
    price: float | None = None,
) -> dict[str, Any]:
    """Return the comparison for scripts; a value that is not known is None.

    A job of which only the status is known has the curve None. `to` is a validation accuracy, 0..1,
    by default the highest that all reached, if all have validations. The price is of a GPU for one
    hour.
    """
    known = [found for found in curves if found is not None and found.points]
    target = common_accuracy(known) if to is None and len(known) == len(jobs) else to
    reached: dict[str, Any] | None = None
    if target is not None:
        points = [None if found is None else found.reached(target) for found in curves]
        costs = [
            {"name": job.metadata.name, **_costs(point, price)}
            for job, point in zip(jobs, points, strict=True)
        ]
        reached = {"top1": target, "isCommon": to is None, "jobs": costs}
    return {
        "jobs": [_job(job, found, price) for job, found in zip(jobs, curves, strict=True)],
        "reached": reached,
    }


def _curve(job: ImageNetJob, workdir: Path) -> Curve | None:
    """Return the curve of a local job; None for a program of the user's own."""
    if environments.command_of(job) is not None:
        return None
    results = result.folder_of(job, Volumes(workdir / "volumes", {}))
    if not results.is_dir():
        # The run had a folder of its own for the claim; the link of its model leads there.
        results = workdir / "jobs" / job.metadata.name / MODEL_LINK
    try:
        runs = read_runs(attempt_folders(results))
    except OSError as error:
        raise LocalError(f"cannot read {error.filename}: {error.strerror}") from error
    return curve(runs, account_of(job))


def _job(job: ImageNetJob, found: Curve | None, price: float | None) -> dict[str, Any]:
    status, training = job.status, job.status.training
    points = () if found is None else found.points
    last = points[-1].epoch if points else None
    # An attempt may only validate what the one before has trained.
    losses = [point.epoch.loss for point in points if point.epoch.loss is not None]
    checked = [point.epoch for point in points if point.epoch.validation is not None]
    validation = checked[-1].validation if checked else None
    best = None if found is None else found.best
    accuracy = None if training is None else training.accuracy
    account = account_of(job)
    finished = None if training is None else (training.finished_epochs or "").partition("/")[0]
    epochs = int(finished) if finished and finished.isdecimal() else None
    seconds = None if account is None else account.seconds
    gpu_hours = None if account is None else account.gpu_hours
    if found is not None and (points or account is None):
        seconds, gpu_hours = found.seconds, found.gpu_hours
    return {
        "name": job.metadata.name,
        "phase": status.phase,
        "epochs": epochs if last is None else last.number,
        "plannedEpochs": job.spec.training.epochs,
        "images": found.images if found is not None and points else report.images(status),
        "lostImages": found.lost_images if found is not None and points else None,
        "seconds": None if seconds is None else round(seconds, 1),
        "gpuHours": gpu_hours,
        **_cost(gpu_hours, price),
        "top1": validation.top1 if validation else accuracy and accuracy.validation,
        "bestTop1": best and best.epoch.validation and best.epoch.validation.top1,
        "loss": losses[-1] if losses else training and training.loss,
        "validationLoss": validation and validation.loss,
        "imagesPerSecond": training and training.images_per_second,
        "restarts": status.restarts,
        "disruptions": status.disruptions,
        "curve": [_point(point) for point in points],
    }


def _point(point: Point) -> dict[str, Any]:
    epoch, checked = point.epoch, point.epoch.validation
    return {
        "epoch": epoch.number,
        "attempt": epoch.attempt,
        "images": point.images,
        "seconds": round(point.seconds, 1),
        "gpuHours": None if point.gpu_hours is None else round(point.gpu_hours, 4),
        "loss": epoch.loss,
        "top1": epoch.top1,
        "validation": None if checked is None else {"top1": checked.top1, "loss": checked.loss},
        "learningRate": epoch.learning_rate,
    }


def _costs(point: Point | None, price: float | None) -> dict[str, Any]:
    found = {} if point is None else _point(point)
    costs = {name: found.get(name) for name in ("epoch", "images", "seconds", "gpuHours")}
    return {**costs, **_cost(None if point is None else point.gpu_hours, price)}


def _cost(gpu_hours: float | None, price: float | None) -> dict[str, float | None]:
    if price is None:
        return {}
    return {"cost": None if gpu_hours is None else round(gpu_hours * price, 2)}


def text(comparison: dict[str, Any]) -> str:
    """Return the comparison for people."""
    jobs: list[dict[str, Any]] = comparison["jobs"]
    has_price = "cost" in jobs[0]
    heads = ["job", "epochs", *_COSTS, "top-1", "best", "loss", "val. loss", "images/s", "restarts"]
    rows = [
        [
            job["name"],
            f"{_number(job['epochs'], 'd')}/{job['plannedEpochs']}",
            *_cost_cells(job),
            _number(job["top1"], ".4f"),
            _number(job["bestTop1"], ".4f"),
            _number(job["loss"], ".4f"),
            _number(job["validationLoss"], ".4f"),
            _number(job["imagesPerSecond"], ",.1f"),
            str(job["restarts"] + job["disruptions"]),
        ]
        for job in jobs
    ]
    lines = _table(heads, rows, has_price)
    lost = [
        f"{job['name']} trained {job['lostImages']:,} of its images again after restarts"
        for job in jobs
        if job["lostImages"]
    ]
    lines += ["", *lost] if lost else []
    reached = comparison["reached"]
    if reached is None:
        why = "the costs of an accuracy need the logs of the trainings; a status has none"
        if any(job["curve"] for job in jobs):
            names = [job["name"] for job in jobs if job["bestTop1"] is None]
            have = "has" if len(names) == 1 else "have"
            why = f"no accuracy is compared: {', '.join(names)} {have} no validation yet"
        return "\n".join([*lines, "", why])
    chosen = ", the highest that all reached" if reached["isCommon"] else ""
    lines += ["", f"to reach validation top-1 {reached['top1']:.4f}{chosen}:"]
    rows = [
        [job["name"], _number(job["epoch"], "d"), *_cost_cells(job)]
        if job["epoch"] is not None
        else [job["name"], "not reached", *[""] * len(_COSTS)]
        for job in reached["jobs"]
    ]
    return "\n".join([*lines, *_table(["job", "epoch", *_COSTS], rows, has_price)])


_COSTS = ("images", "time", "GPU-hours", "cost")


def _cost_cells(job: dict[str, Any]) -> list[str]:
    return [
        _number(job["images"], ",d"),
        _time(job["seconds"]),
        _number(job["gpuHours"], ",.2f"),
        _number(job.get("cost"), ",.2f"),
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], has_price: bool) -> list[str]:
    """Return aligned lines: names left, numbers right. Without a price, there is no cost."""
    shown = [number for number, head in enumerate(heads) if has_price or head != "cost"]
    cells = [[row[number] for number in shown] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to 1; write 0.75")
    return value

"""`imagenetctl bench FILE`: measures whether reading or the network limits training.

Runs the job three times on this machine, with few batches: reading alone, training alone, and
both. `scaling.bottleneck` has the jobs and the decision. Cause and remedy are those of a job that
waits for its data (`reconcile.policies.data_wait`), from what the programs have measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from imagenet_operator.api import ImageNetJob, Manifest, parse
from imagenet_operator.api.status import DataWaitStatus
from imagenet_operator.api.templates import own_program
from imagenet_operator.cli import exit_codes, files, local_resources, result, run
from imagenet_operator.cli.arguments import Commands, add_command, add_job_file, whole
from imagenet_operator.errors import ImageNetJobError
from imagenet_operator.reconcile import step_window
from imagenet_operator.reconcile.policies import data_wait
from imagenet_operator.scaling import bottleneck
from imagenet_operator.scaling.points import shared_claim
from imagenet_spec.names import EVENTS_FILE

_EXAMPLES = """examples:
  imagenetctl bench job.yaml
  imagenetctl bench job.yaml --batches 200 --workdir /data/work --volume raw=/data/archives
  imagenetctl bench job.yaml --output json | jq 'select(.type == "bench") | .bottleneck'

The dataset is prepared once. The runs that train repeat the batches: the first pass is the warm-up.
"""
_CONTENT = {
    bottleneck.READING: "reading alone",
    bottleneck.NETWORK: "network alone",
    bottleneck.BOTH: "both",
}


def add_parser(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "bench",
        bench,
        summary="measure whether reading or the network limits a job",
        description="Run a few batches of one ImageNetJob on this machine three times: reading "
        "alone, the network alone, and both.",
        examples=_EXAMPLES,
    )
    add_job_file(parser)
    parser.add_argument(
        "--batches",
        type=whole(1),
        default=50,
        metavar="N",
        help="batches of each worker that are measured (default: %(default)s)",
    )
    local_resources.add_options(parser)


def bench(arguments: argparse.Namespace) -> int:
    """Measure and judge; return the exit code."""
    manifest = run.read(arguments.file).to_manifest()
    if own_program.has_command(manifest["spec"]["training"].get("workers", {}).get("template")):
        raise ImageNetJobError(
            f"{arguments.file}: spec.training.workers.template: runs a command of its own, and "
            "bench measures imagenet-train; remove the command"
        )
    jobs = _jobs(manifest, arguments)
    resources = local_resources.from_options(arguments)
    local_resources.get_ready(list(jobs.values()), resources, shared_claim(manifest))
    ends: dict[str, result.Result] = {}
    speeds: dict[str, float] = {}
    for name, job in jobs.items():
        if arguments.output == "text":
            print(f"measuring {_CONTENT[name]} ({job.metadata.name})", file=sys.stderr)
        end = run.execute(job, resources, run.display_of(arguments.output))
        if not end.succeeded:
            if arguments.output == "json":
                print(json.dumps(result.as_json(end)))
            elif end.failure is not None:
                print(f"imagenetctl: {result.failure_text(end)}", file=sys.stderr)
            return result.EXIT_CODES[end.outcome]
        ends[name], speeds[name] = end, _speed(end)
    _show(bottleneck.Speeds(**speeds), ends, arguments.output)
    return exit_codes.SUCCESS


def _jobs(manifest: Manifest, arguments: argparse.Namespace) -> dict[str, ImageNetJob]:
    """Return the job of each run, all of them valid."""
    jobs = {}
    for name in bottleneck.RUNS:
        document = bottleneck.job_of(manifest, name, arguments.batches)
        if found := files.problems(document):
            lines = "\n".join(f"  {problem}" for problem in found)
            raise ImageNetJobError(f"{arguments.file}: {_CONTENT[name]} cannot run:\n{lines}")
        jobs[name] = parse(document)
    return jobs


def _speed(end: result.Result) -> float:
    """Return a run's images/s over all workers, without the warm-up.

    Raises:
        ImageNetJobError: The run left no speed.
    """
    training = end.job.status.training
    speed = training.images_per_second if training is not None else None
    if end.model is not None:
        lines = (end.model / EVENTS_FILE).read_text().splitlines()
        epochs = [event for event in map(json.loads, lines) if event["event"] == "epoch"]
        speed = float(epochs[-1]["imagesPerSecond"]) if epochs else None
    if not speed:
        raise ImageNetJobError(
            f"{end.job.metadata.name} left no images/s; its programs are older than this one, "
            "install all packages of this project in the same version"
        )
    return speed


def explain(
    speeds: bottleneck.Speeds, limit: str | None, ends: Mapping[str, result.Result]
) -> tuple[data_wait.Cause | None, str]:
    """Return why a part limits training, and what to change, in words; nothing without a limit."""
    if limit is None:
        return None, ""
    # Of rank 0. An older program has measured nothing.
    measured = ends[limit].training.get("train", {}).get("measured", {})
    causes = (float(measured.get(name, 0.0)) for name in step_window.CAUSES)
    # Reading alone is waiting from the beginning to the end. Other runs do not only read.
    read = ends[limit].training.get("reading")
    seconds = float(read["images"] / read["imagesPerSecond"]) if read else 0.0
    window = step_window.Steps(1, 1, 1, seconds, seconds, *causes)
    job = ends[limit].job
    compared = DataWaitStatus(
        images_per_second=speeds.reading,
        network_images_per_second=speeds.network,
        share=max(0.0, 1 - speeds.reading / speeds.network),
    )
    if limit == bottleneck.READING:
        why = data_wait.cause(window)
        return why, data_wait.advice(job, compared, why)
    why = data_wait.launches(window)
    if why is not None:
        return why, data_wait.advice(job, compared, why)
    waits = "its GPUs wait for the program to launch steps"
    if not window.launched:
        return None, f"whether {waits} was not measured"
    return None, f"in {window.starved / window.launched:.0%} of its steps {waits}"


def _show(speeds: bottleneck.Speeds, ends: Mapping[str, result.Result], output: str) -> None:
    verdict = bottleneck.judge(speeds)
    why, advice = explain(speeds, verdict.bottleneck, ends)
    sentence = f"{verdict.sentence.rstrip('.')}; {advice}." if advice else verdict.sentence
    by_run = {name: getattr(speeds, name) for name in bottleneck.RUNS}
    if output == "json":
        figures: dict[str, Any] = {name: round(speed, 1) for name, speed in by_run.items()}
        document = {"imagesPerSecond": figures, "bottleneck": verdict.bottleneck, "cause": why}
        print(json.dumps({"type": "bench", **document, "sentence": sentence}))
        return
    print(f"{'run':<16}{'images/s':>12}")
    for name, speed in by_run.items():
        print(f"{_CONTENT[name]:<16}{speed:>12,.1f}")
    print(sentence)

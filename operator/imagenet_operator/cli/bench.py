"""`imagenetctl bench FILE`: measures whether reading or the network limits training.

Runs the job three times on this machine, with few batches: reading alone, training alone, and both.
Cause and remedy are those of a job that waits for its data (`reconcile.policies.data_wait`), from
what the programs have measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from imagenet_operator.cli import exit_codes, local_resources, result, run
from imagenet_operator.cli.arguments import Command, add_job_file, whole
from imagenet_operator.cli.display import display_of
from imagenet_operator.reconcile import windows
from imagenet_operator.reconcile.policies import data_wait
from imagenet_operator.scaling.points import fitting_name, shared_claim
from imagenet_operator.sdk import submission
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.names import EVENTS_FILE
from imagenet_spec.resource import Manifest
from imagenet_spec.resource.status import DataWaitStatus
from imagenet_spec.resource.templates import own_program
from imagenet_spec.validate import parse

READING, NETWORK, BOTH = "reading", "network", "both"
RUNS = (READING, NETWORK, BOTH)
"""What a run measures: reading alone, training on random images in memory, training as it is."""

EPOCHS = 2
"""Epochs of a run that trains. The first one is the warm-up."""

CLOSE = 0.1
"""Speeds that differ by less than this fraction of the faster one are equal."""

_OPTIONS = {READING: ["--test-io", "1"], NETWORK: ["--benchmark", "1"], BOTH: []}
_OF_MANY_EPOCHS = {
    "optimizer": ("stepEpochs", "warmupEpochs"),
    "augmentation": ("offInLastEpochs",),
}


@dataclass(frozen=True)
class Speeds:
    """Images/s of each run, over all workers."""

    reading: float
    network: float
    both: float


@dataclass(frozen=True)
class Verdict:
    """Which part limits training; `bottleneck` is None if both are about as fast."""

    bottleneck: str | None
    sentence: str


def judge(speeds: Speeds) -> Verdict:
    """Return the slower of reading and network as the bottleneck."""
    reading, network = speeds.reading, speeds.network
    figures = f"reading gives {reading:,.0f} images/s, the network takes {network:,.0f}"
    if abs(reading - network) < CLOSE * max(reading, network):
        return Verdict(
            None, f"Neither is the bottleneck: {figures}, which differ by less than 10 %."
        )
    if reading < network:
        waits = round(100 * (1 - reading / network))
        return Verdict(
            READING,
            f"Reading is the bottleneck: {figures}, so the network waits at least {waits} % "
            "of the time.",
        )
    return Verdict(NETWORK, f"The network is the bottleneck: {figures}.")


def job_name(base: str, run: str) -> str:
    """Return the name of a run's job, such as NAME-bench-reading."""
    return fitting_name(base, f"-bench-{run}", f"-{{digest}}-bench-{run}")


def job_of(manifest: Manifest, run: str, batches: int) -> Manifest:
    """Return the job of a run: the manifest with few batches, on the dataset of all runs."""
    metadata, spec = manifest["metadata"], manifest["spec"]
    training = spec["training"]
    options = [*training.get("extraArgs", []), *_OPTIONS[run], "--max-batches", str(batches)]
    shorter = {
        field: {name: value for name, value in training[field].items() if name not in names}
        for field, names in _OF_MANY_EPOCHS.items()
        if field in training
    }
    if "optimizer" in training:
        shorter["optimizer"]["stepEpochs"] = []
    claim = shared_claim(manifest)
    volume = {} if claim is None else {"volume": {"claimName": claim}}
    changed = {
        "dataset": spec["dataset"] | volume,
        "training": training | shorter | {"epochs": EPOCHS, "extraArgs": options},
    }
    name = {"name": job_name(metadata["name"], run)}
    return manifest | {"metadata": metadata | name, "spec": spec | changed}


_EXAMPLES = """examples:
  imagenetctl bench job.yaml
  imagenetctl bench job.yaml --batches 200 --workdir /data/work --volume raw=/data/archives
  imagenetctl bench job.yaml --output json | jq 'select(.type == "bench") | .bottleneck'

The dataset is prepared once. The runs that train repeat the batches: the first pass is the warm-up.
"""
_CONTENT = {
    READING: "reading alone",
    NETWORK: "network alone",
    BOTH: "both",
}


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
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
            f"{arguments.file}: spec.training.workers.template: runs another command, and "
            "bench measures imagenet-train; remove the command"
        )
    jobs = {}
    for name in RUNS:
        document = job_of(manifest, name, arguments.batches)
        if found := submission.problems(document):
            lines = "\n".join(f"  {problem}" for problem in found)
            raise ImageNetJobError(f"{arguments.file}: {_CONTENT[name]} cannot run:\n{lines}")
        jobs[name] = parse(document)
    resources = local_resources.from_options(arguments)
    local_resources.get_ready(list(jobs.values()), resources, shared_claim(manifest))
    ends: dict[str, result.Result] = {}
    by_run: dict[str, float] = {}
    for name, job in jobs.items():
        if arguments.output == "text":
            print(f"measuring {_CONTENT[name]} ({job.metadata.name})", file=sys.stderr)
        end = run.execute(job, resources, display_of(arguments.output))
        if not end.succeeded:
            if arguments.output == "json":
                print(json.dumps(result.as_json(end)))
            elif end.failure is not None:
                print(f"imagenetctl: {result.failure_text(end)}", file=sys.stderr)
            return result.EXIT_CODES[end.outcome]
        ends[name], by_run[name] = end, _speed(end)
    speeds = Speeds(**by_run)
    verdict = judge(speeds)
    why, advice = explain(speeds, verdict.bottleneck, ends)
    sentence = f"{verdict.sentence.rstrip('.')}; {advice}." if advice else verdict.sentence
    if arguments.output == "json":
        figures = {name: round(speed, 1) for name, speed in by_run.items()}
        document = {"imagesPerSecond": figures, "bottleneck": verdict.bottleneck, "cause": why}
        print(json.dumps({"type": "bench", **document, "sentence": sentence}))
    else:
        print(f"{'run':<16}{'images/s':>12}")
        for name, speed in by_run.items():
            print(f"{_CONTENT[name]:<16}{speed:>12,.1f}")
        print(sentence)
    return exit_codes.SUCCESS


def _speed(end: result.Result) -> float:
    """Return a run's images/s over all workers, without the warm-up."""
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
    speeds: Speeds, limit: str | None, ends: Mapping[str, result.Result]
) -> tuple[data_wait.Cause | None, str]:
    """Return why a part limits training, and what to change, in words; nothing without a limit."""
    if limit is None:
        return None, ""
    # Of rank 0. An older program has measured nothing.
    measured = ends[limit].training.get("train", {}).get("measured", {})
    causes = (float(measured.get(name, 0.0)) for name in windows.CAUSES)
    # Reading alone is waiting from the beginning to the end. Other runs do not only read.
    read = ends[limit].training.get("reading")
    seconds = float(read["images"] / read["imagesPerSecond"]) if read else 0.0
    window = windows.Steps(1, 1, 1, seconds, seconds, *causes)
    job = ends[limit].job
    compared = DataWaitStatus(
        images_per_second=speeds.reading,
        network_images_per_second=speeds.network,
        share=max(0.0, 1 - speeds.reading / speeds.network),
    )
    if limit == READING:
        why = data_wait.cause(window)
        return why, data_wait.advice(job, compared, why)
    why = data_wait.launches(window)
    if why is not None:
        return why, data_wait.advice(job, compared, why)
    waits = "its GPUs wait for the program to launch steps"
    if not window.launched:
        return None, f"whether {waits} was not measured"
    return None, f"in {window.starved / window.launched:.0%} of its steps {waits}"

"""What users and older releases rely on, as it is now, for `tests/recorded/facts.json`.

PYTHONPATH=tests python -m support.recorded_facts    # record it again
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tomllib
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from imagenet_operator.manifests.attempt import training_hash
from imagenet_spec.load import load
from imagenet_spec.metrics import TimePhase
from imagenet_spec.resource.job import root_schema
from imagenet_spec.validate import parse as parse_job
from imagenet_workloads.checkpoint import Position
from imagenet_workloads.commands import train
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.dataset import Packing
from imagenet_workloads.environment import Environment
from imagenet_workloads.train.counts import Counts
from imagenet_workloads.train.receipts import LaterReceipt, Receipt
from imagenet_workloads.train.result import Result
from imagenet_workloads.train.resume import identify
from support.argument_lists import GOOD, is_ours, lines, parse, pods
from support.job_table import JOBS
from support.pod_subset import REPOSITORY

RECORDED = REPOSITORY / "tests" / "recorded" / "facts.json"
DATASET, MANIFEST = RECORDED.with_name("dataset.json"), RECORDED.with_name("manifest.json")
"""Files of a dataset and of a checkpoint, as a release wrote them."""

TELEMETRY = REPOSITORY / "docs" / "telemetry.md"
ROLES = REPOSITORY / "charts" / "imagenet-operator" / "templates" / "roles.yaml"
BY_HAND = tuple(
    " ".join(line.split())
    for line in """
    --network resnet --num-layers 50 --batch-size 32
    --network mlp --lr 0.5 --num-epochs 3 --seed 7
    --network mlp --lr-step-epochs pow2
    --network mlp --lr-step-epochs=
    --network lenet --optimizer adam --wd 0.001 --random-crop 1 --pad-size 4
    --preset imagenet --network resnet --num-layers 152 --dtype float16
    --framework TensorFlow --distribution-strategy horovod --label-smoothing 0.1
    --framework PyTorch --image-sizes 0:128,4:160 --validation-size 256 --compile 1
    """.strip().splitlines()
)
"""Command lines of trainings without a job."""


def facts() -> dict[str, Any]:
    """Return everything, by kind."""
    return {
        "jobs": {name: _of_job(job) for name, job in JOBS.items()} | _of_manifests(),
        "trained by hand": {
            line: identify(train.parse(line.split()), Environment()).spec_hash for line in BY_HAND
        },
        "options": {name: sorted(_options(parser)) for name, parser in _parsers().items()},
        "result.json": _result(),
        "metrics": sorted(set(re.findall(r"`(imagenet_\w+)`", TELEMETRY.read_text()))),
        "rights": [
            line.strip(" -")
            for line in ROLES.read_text().splitlines()
            if re.match(
                r" *-? *(kind|apiGroups|resources|resourceNames|verbs):|.*{{-? (if|end)", line
            )
        ],
        "spec": _digest(_structure(root_schema()["properties"]["spec"])),
    }


def _of_manifests() -> dict[str, Any]:
    found = {}
    for file in GOOD:
        for number, document in enumerate(load(file)):
            named = {**document, "metadata": {**document["metadata"], "name": "published"}}
            found[f"{file.parent.name}/{file.stem} {number}"] = _of_job(parse_job(named))
    return found


def _of_job(job: Any) -> dict[str, str]:
    """Return what a job trains, and the options that its programs read from their arguments."""
    containers = [spec["containers"][0] for spec in pods(job)]
    ours = [line for container in containers if is_ours(container) for line in lines(container)]
    # The command within a command is a line of its own.
    read = [(line[0], {**vars(parse(line)), "command": None}) for line in ours]
    options = [
        # Epochs of the warm-up are 5 by default and 5.0 as they are read.
        (
            script,
            {
                name: str(found[name]).removesuffix(".0")
                for name in sorted(found)
                if found[name] not in (None, [], ())
            },
        )
        for script, found in read
    ]
    return {"training": training_hash(job)[:16], "options": _digest(options)}


def _parsers() -> dict[str, argparse.ArgumentParser]:
    found = {}
    for package in ("operator", "workloads"):
        project = tomllib.loads((REPOSITORY / package / "pyproject.toml").read_text())["project"]
        for name, place in project["scripts"].items():
            found[name] = import_module(place.partition(":")[0]).build_parser()
    return found


def _options(parser: argparse.ArgumentParser, before: str = "") -> list[str]:
    """Return each option and argument of a program: choices, number, default, if it is required."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                found += _options(inner, f"{before}{name} ")
            continue
        names = ", ".join(action.option_strings) or action.dest
        choices = "" if action.choices is None else f" {{{','.join(map(str, action.choices))}}}"
        many = "" if action.nargs is None else f" [{action.nargs}]"
        needed = " required" if action.required and action.option_strings else ""
        is_plain = isinstance(action.default, bool | int | float | str | tuple)
        default = f" = {action.default}" if is_plain else ""
        found.append(f"{before}{names}{choices}{many}{default}{needed}")
    return found


def _result() -> dict[str, Any]:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    later = LaterReceipt(10, Position(0, 30), 3, {"weights": "02"})
    result = Result(
        job="digits",
        uid="uid",
        attempt=3,
        framework="PyTorch",
        strategy="single",
        network="resnet-50",
        epochs=2,
        workers=1,
        validation=Counts(images=10, top1=5, top5=9, loss_units=1 << 21),
        images=200,
        images_per_second=20.5,
        inputs=Inputs((3, 224, 224), (1, 2, 3), (4, 5, 6), 256, (Packing(480, 90, "planes"),)),
        dataset_key="key",
        resumed_from="attempts/r2/checkpoints/epoch-0000-batch-00000020",
        started_at=moment,
        seconds=lambda: {TimePhase.STEPPING: 9.5},
        measured=lambda: {"imagenet_train_read_wait_seconds_total": 0.5},
        loop_cpu=lambda: 0.0003,
        checkpoint_stall=0.01,
        receipts=[Receipt(Position(0, 20), 3, {"weights.npz": "00"}, "03", later)],
    )
    return result.document({"weights": "model-0002.safetensors"}, moment)


def _structure(schema: Any) -> Any:
    """Return a schema without its sentences and rules."""
    if isinstance(schema, list):
        return [_structure(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"x-kubernetes-validations"}
    if isinstance(schema.get("description"), str):
        left_out.add("description")
    return {name: _structure(one) for name, one in schema.items() if name not in left_out}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def main() -> None:
    """Record the facts."""
    RECORDED.write_text(json.dumps(facts(), indent=1) + "\n")


if __name__ == "__main__":
    main()

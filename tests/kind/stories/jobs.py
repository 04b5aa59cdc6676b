"""The jobs that stories tell of: some really train, most are played by stand-ins.

What MXNet does is not the point of most stories, and importing it takes longer than all the rest.
There the programs are those of `support.stand_in_program`, which a template mounts into the pods
and puts first on their PATH; they end, fail, or hold until they are released, as a story wants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.stand_ins import PROGRAMS

Manifest = dict[str, Any]

CLAIM = "data"
"""The claim of every story, for what it reads and what it writes."""

DIGITS = "datasets/digits"
"""Where on the claim a prepared dataset of handwritten digits lies."""

STAND_INS = "programs"
"""The ConfigMap with the stand-ins."""

_CODE = Path(__file__).parents[2] / "support" / "stand_in_program.py"
_LENET = {"network": "lenet", "imageShape": [3, 28, 28]}


def trained(
    name: str = "story",
    *,
    epochs: int = 8,
    strategy: Manifest | None = None,
    workers: Manifest | None = None,
    dataset: Manifest | None = None,
    training: Manifest | None = None,
    run_policy: Manifest | None = None,
) -> Manifest:
    """Return a job that trains handwritten digits: two workers, one server, one scheduler.

    Args:
        name: The job's.
        epochs: Each takes about a second.
        strategy: Another one than a parameter server.
        workers: Fields of the workers to add or replace.
        dataset: Another one than the prepared one at DIGITS.
        training: Fields of the training to add or replace.
        run_policy: The job's.
    """
    servers = {"parameterServer": {"kvStore": "dist_sync", "servers": {"replicas": 1}}}
    return _job(
        name,
        dataset=dataset or {"source": {"prepared": {"claimName": CLAIM, "path": DIGITS}}},
        training={
            "strategy": strategy or servers,
            "model": _LENET,
            "batchSize": 32,
            "epochs": epochs,
            "optimizer": {"learningRate": 0.02, "stepEpochs": [], "warmupEpochs": 0},
            "checkpoint": {"everyEpochs": 1, "keep": 2},
            "dataThreads": 1,
            "workers": {"replicas": 2, **(workers or {})},
            **(training or {}),
        },
        run_policy=run_policy,
    )


def played(
    name: str = "story",
    *,
    behaviour: Mapping[str, str] | None = None,
    prepared: bool = False,
    volume: Manifest | None = None,
    workers: Manifest | None = None,
    training: Manifest | None = None,
    template: Manifest | None = None,
    run_policy: Manifest | None = None,
) -> Manifest:
    """Return a job whose programs are stand-ins: two workers, one server, one scheduler.

    Args:
        name: The job's.
        behaviour: What a program does, by role or ROLE@ATTEMPT, such as {"worker@0": "hold"}.
        prepared: Whether the dataset is there already.
        volume: Another place for the dataset than the story's claim.
        workers: Fields of the workers to add or replace.
        training: Fields of the training to add or replace.
        template: Fields to add to the PodTemplateSpec of every pod's `spec`.
        run_policy: The job's.
    """

    def of_pods(folder: str) -> Manifest:
        return _stand_ins(behaviour or {}, folder, template or {})

    with_volume, without_volume = of_pods("/data"), of_pods("/scratch")
    source: Manifest = {
        "source": {"volume": {"claimName": CLAIM, "path": "images.tar"}},
        "volume": volume or {"claimName": CLAIM},
        "preprocessing": {"template": with_volume},
    }
    if prepared:
        source = {"source": {"prepared": {"claimName": CLAIM, "path": DIGITS}}}
    servers = {"replicas": 1, "template": without_volume}
    return _job(
        name,
        dataset=source,
        training={
            "strategy": {"parameterServer": {"kvStore": "dist_sync", "servers": servers}},
            "model": _LENET,
            "batchSize": 96,
            "epochs": 1,
            "workers": {"replicas": 2, "template": with_volume, **(workers or {})},
            **(training or {}),
        },
        run_policy=run_policy,
    )


def stand_ins() -> Manifest:
    """Return the ConfigMap that `played` jobs mount: one executable for each program."""
    code = f"#!/usr/bin/env python3\n{_CODE.read_text()}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": STAND_INS},
        "data": {f"imagenet-{program}": code for program in PROGRAMS},
    }


def _stand_ins(behaviour: Mapping[str, str], folder: str, more: Manifest) -> Manifest:
    """Return a template that puts the stand-ins before the image's own programs."""
    variables = {
        "PATH": "/programs:/opt/imagenet/bin:/usr/local/bin:/usr/bin:/bin",
        "STAND_IN": json.dumps(behaviour),
        "STAND_IN_FOLDER": folder,
    }
    container = {
        "name": "main",
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [{"name": "programs", "mountPath": "/programs"}],
    }
    volume = {"name": "programs", "configMap": {"name": STAND_INS, "defaultMode": 0o555}}
    return {"spec": {"containers": [container], "volumes": [volume], **more}}


def _job(name: str, dataset: Manifest, training: Manifest, run_policy: Manifest | None) -> Manifest:
    return {
        "apiVersion": "imagenet.dev/v1alpha1",
        "kind": "ImageNetJob",
        "metadata": {"name": name},
        "spec": {"dataset": dataset, "training": training, "runPolicy": run_policy or {}},
    }

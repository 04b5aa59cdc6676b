"""The jobs of the stories: some train, most run stand-ins.

What MXNet does is not the point of most stories, and importing it takes longer than all the rest.
There the programs are those of `support.stand_in_program`, which a template mounts into the pods
and puts first on their PATH; they end, fail, or hold until they are released, as a story wants.

The real ones are held by `support.hold_point`: in the moment before a file gets its name, which is
when all of a step's work is done, and none of it seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.stand_ins import MEMBERS, PROGRAMS

Manifest = dict[str, Any]

IMAGE = "imagenet-workloads-mxnet:0.1.0"
"""The image of what trains on CPUs, as it is built here."""

CLAIM = "data"
"""The claim of every story, for what it reads and what it writes."""

DIGITS = "datasets/digits"
"""Where on the claim a prepared dataset of handwritten digits lies."""

ARCHIVE = "digits.tar"
"""Where on the claim an archive of raw images lies, if a story makes it."""

VALIDATED = 180
"""How many images it has to validate on; one that is made of the archive has as many."""

AT_CHECKPOINT = "/epoch-{:04}-[^/]*$"
"""The pattern of the path of a checkpoint, by its epoch."""

PROGRAMS_OF_STORIES = "programs"
"""The ConfigMap with the stand-ins, and with what holds the real programs."""

_SUPPORT = Path(__file__).parents[2] / "support"
_LENET = {"network": "lenet", "imageShape": [3, 28, 28]}


def trained(
    name: str = "story",
    *,
    epochs: int = 8,
    strategy: Manifest | None = None,
    workers: Manifest | None = None,
    dataset: Manifest | None = None,
    training: Manifest | None = None,
    hold_at: Mapping[str, str] | None = None,
    template: Manifest | None = None,
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
        hold_at: Before which file a program is held, as a pattern of its path, by role or
            ROLE@ATTEMPT: of workers here, of the others by `held`.
        template: Fields to add to the PodTemplateSpec of every worker's `spec`.
        run_policy: The job's.
    """
    servers = {"parameterServer": {"kvStore": "dist_sync", "servers": {"replicas": 1}}}
    of_workers = held(hold_at, template) if hold_at else {"spec": template or {}}
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
            "workers": {"replicas": 2, "template": of_workers, **(workers or {})},
            **(training or {}),
        },
        run_policy=run_policy,
    )


def from_archive(
    *, format: str = "RecordIO", hold_at: Mapping[str, str] | None = None, hold_by: str = ""
) -> Manifest:
    """Return the dataset that is made of the story's archive of raw images.

    Args:
        format: Of its shards.
        hold_at: Before which file the programs that make it are held, by role.
        hold_by: The folder of the claim by which they are, if several jobs are held.
    """
    return {
        "source": {"volume": {"claimName": CLAIM, "path": ARCHIVE}},
        "validation": {"split": {"imagesPerClass": 20}},
        "preprocessing": {
            "format": format,
            "minImagesPerClass": 100,
            "shards": 2,
            **({"template": held(hold_at, folder=hold_by)} if hold_at else {}),
        },
        "volume": {"claimName": CLAIM},
    }


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


def programs() -> Manifest:
    """Return the ConfigMap that jobs of stories mount."""
    stand_in = f"#!/usr/bin/env python3\n{(_SUPPORT / 'stand_in_program.py').read_text()}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PROGRAMS_OF_STORIES},
        "data": {
            **{f"imagenet-{program}": stand_in for program in {*PROGRAMS, *MEMBERS}},
            # Imported by Python before any program, where its folder is on PYTHONPATH.
            "sitecustomize.py": (_SUPPORT / "hold_point.py").read_text(),
        },
    }


def held(hold_at: Mapping[str, str], more: Manifest | None = None, *, folder: str = "") -> Manifest:
    """Return a template in which the real programs are held, for pods that mount the claim.

    Args:
        hold_at: Before which file, as a pattern of its path, by role or ROLE@ATTEMPT.
        more: Fields to add to its `spec`.
        folder: Of the claim, where they report that they are held and read that they may continue.
    """
    variables = {
        "PYTHONPATH": "/programs",
        "HOLD_AT": json.dumps(hold_at),
        "HOLD_FOLDER": f"/data/{folder}",
    }
    return _with_programs(variables, more or {})


def _stand_ins(behaviour: Mapping[str, str], folder: str, more: Manifest) -> Manifest:
    """Return a template that puts the stand-ins before the image's own programs."""
    variables = {
        "PATH": "/programs:/opt/imagenet/bin:/usr/local/bin:/usr/bin:/bin",
        "STAND_IN": json.dumps(behaviour),
        "STAND_IN_FOLDER": folder,
    }
    return _with_programs(variables, more)


def _with_programs(variables: Mapping[str, str], more: Manifest) -> Manifest:
    """Return a template that mounts what stories bring along."""
    container = {
        "name": "main",
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [{"name": "programs", "mountPath": "/programs"}],
    }
    volume = {"name": "programs", "configMap": {"name": PROGRAMS_OF_STORIES, "defaultMode": 0o555}}
    return {"spec": {"containers": [container], "volumes": [volume], **more}}


def _job(name: str, dataset: Manifest, training: Manifest, run_policy: Manifest | None) -> Manifest:
    return {
        "apiVersion": "imagenet.dev/v1alpha1",
        "kind": "ImageNetJob",
        "metadata": {"name": name},
        "spec": {"dataset": dataset, "training": training, "runPolicy": run_policy or {}},
    }

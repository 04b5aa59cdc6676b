"""The jobs of the stories: some train, most run stand-ins.

Most stories do not test MXNet, and importing it takes most of a short story's time. Their programs
are those of `support.stand_in_program`. A template mounts them into the pods, first on the PATH. A
stand-in ends, fails, or waits until the story releases it.

`support.hold_point` holds the real programs just before a file gets its name: the work of a step
is complete, and no other program sees it yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.stand_ins import MEMBERS, PROGRAMS

Manifest = dict[str, Any]

IMAGE = "imagenet-workloads-mxnet:0.2.0"
PREPARATION_IMAGE = "imagenet-workloads-preparation:0.2.0"
"""The image that trains on CPUs, with the tag of a local build."""

CLAIM = "data"
"""The claim of every story, for its input and its output."""

DIGITS = "datasets/digits"
"""The path of a prepared dataset of handwritten digits on the claim."""

ARCHIVE = "digits.tar"
"""The path of an archive of raw images on the claim, if a story makes one."""

VALIDATED = 180
"""Validation images of that dataset, and of one that is made from the archive."""

AT_CHECKPOINT = "/epoch-{:04}-[^/]*$"
"""The pattern of the path of a checkpoint, by its epoch."""

PROGRAMS_OF_STORIES = "programs"
"""The ConfigMap with the stand-ins and the hold point of the real programs."""

_SUPPORT = Path(__file__).parents[2] / "support"
_LENET = {"network": "lenet", "imageShape": [3, 28, 28]}
_PREPARED = {"source": {"prepared": {"claimName": CLAIM, "path": DIGITS}}}
# An epoch of two workers takes about a second.
_TRAINING: Manifest = {
    "model": _LENET,
    "batchSize": 32,
    "optimizer": {"learningRate": 0.02, "stepEpochs": [], "warmupEpochs": 0},
    "checkpoint": {"everyEpochs": 1, "keep": 2},
    "dataThreads": 1,
}


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
        strategy: By default a parameter server.
        workers: Fields of the workers to add or replace.
        dataset: By default the prepared one at DIGITS.
        training: Fields of the training to add or replace.
        hold_at: The file before which a worker is held, as a pattern of its path, by role or
            ROLE@ATTEMPT. `held` does the same for other roles.
        template: Fields to add to the PodTemplateSpec of every worker's `spec`.
        run_policy: The job's.
    """
    of_workers = held(hold_at, template) if hold_at else {"spec": template or {}}
    return _job(
        name,
        dataset=dataset or _PREPARED,
        training={
            **_TRAINING,
            "strategy": strategy or _parameter_server(),
            "epochs": epochs,
            "workers": {"replicas": 2, "template": of_workers, **(workers or {})},
            **(training or {}),
        },
        run_policy=run_policy,
    )


def from_archive(*, format: str = "RecordIO", hold_at: Mapping[str, str] | None = None) -> Manifest:
    """Return the dataset that is made from the story's archive of raw images.

    Args:
        format: Of its shards.
        hold_at: The file before which each program of the preparation is held, by role.
    """
    return {
        "source": {"volume": {"claimName": CLAIM, "path": ARCHIVE}},
        "validation": {"split": {"imagesPerClass": 20}},
        "preprocessing": {
            "format": format,
            "minImagesPerClass": 100,
            "shards": 2,
            **({"template": held(hold_at)} if hold_at else {}),
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
        prepared: Whether the dataset exists already.
        volume: The volume of the dataset, by default the story's claim.
        workers: Fields of the workers to add or replace.
        training: Fields of the training to add or replace.
        template: Fields to add to the PodTemplateSpec of every pod's `spec`.
        run_policy: The job's.
    """
    with_volume = _stand_ins(behaviour or {}, "/data", template or {})
    without_volume = _stand_ins(behaviour or {}, "/scratch", template or {})
    made = {
        "source": {"volume": {"claimName": CLAIM, "path": "images.tar"}},
        "volume": volume or {"claimName": CLAIM},
        "preprocessing": {"template": with_volume},
    }
    trains = {
        "strategy": _parameter_server(template=without_volume),
        **{"model": _LENET, "batchSize": 96, "epochs": 1},
        "workers": {"replicas": 2, "template": with_volume, **(workers or {})},
        **(training or {}),
    }
    return _job(name, _PREPARED if prepared else made, trains, run_policy)


def programs() -> Manifest:
    """Return the ConfigMap that jobs of stories mount."""
    stand_in = f"#!/usr/bin/env python3\n{(_SUPPORT / 'stand_in_program.py').read_text()}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PROGRAMS_OF_STORIES},
        "data": {
            **{f"imagenet-{program}": stand_in for program in {*PROGRAMS, *MEMBERS}},
            # Python imports it before any program if its folder is on PYTHONPATH.
            "sitecustomize.py": (_SUPPORT / "hold_point.py").read_text(),
        },
    }


def held(hold_at: Mapping[str, str], more: Manifest | None = None) -> Manifest:
    """Return a template in which the real programs are held, for pods that mount the claim.

    Args:
        hold_at: The file before which they are held, as a pattern of its path, by role or
            ROLE@ATTEMPT.
        more: Fields to add to its `spec`.
    """
    variables = {
        "PYTHONPATH": "/programs",
        "HOLD_AT": json.dumps(hold_at),
        "HOLD_FOLDER": "/data/",
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
    """Return a template that mounts the stories' programs."""
    container = {
        "name": "main",
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [{"name": "programs", "mountPath": "/programs"}],
    }
    volume = {"name": "programs", "configMap": {"name": PROGRAMS_OF_STORIES, "defaultMode": 0o555}}
    return {"spec": {"containers": [container], "volumes": [volume], **more}}


def _parameter_server(**servers: Any) -> Manifest:
    """Return the strategy with one server, and these fields of the servers."""
    return {"parameterServer": {"kvStore": "dist_sync", "servers": {"replicas": 1, **servers}}}


def _job(name: str, dataset: Manifest, training: Manifest, run_policy: Manifest | None) -> Manifest:
    return {
        "apiVersion": "imagenet.dev/v1alpha1",
        "kind": "ImageNetJob",
        "metadata": {"name": name},
        "spec": {"dataset": dataset, "training": training, "runPolicy": run_policy or {}},
    }

"""`validate` and the CRD agree on random manifests.

The corpus shows single mistakes; here several fields vary together, within and beyond their bounds.
The transition rules get the same: any two manifests, as a job that is stored and its update.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.load import load
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.job import root_schema
from imagenet_spec.validate import validate
from support.corpus import cases
from support.crd_evaluator import problem_paths

SCHEMA = root_schema()

(BASE,) = load(next(case.path for case in cases("good") if case.path.stem == "parameter-server"))
ABSENT = object()
ONE_POD = {"size": "1Gi", "accessModes": ["ReadWriteOncePod"]}
ALONE = {"parallelism": 1}
MANAGED = {"managedBy": "kueue.x-k8s.io/multikueue"}
TEMPLATE = {"spec": {"nodeSelector": {"pool": "a"}}}

# Values of each field: good ones, ones at a bound, ones beyond it, and other shapes of unions.
VALUES: dict[str, list[Any]] = {
    "metadata.name": ["digits", "a" * 40, "a" * 41, "Digits", "1digits", "a-", "a.b"],
    "spec.dataset.source": [
        {"volume": {"claimName": "raw", "path": "a.tar"}},
        {"volume": {"claimName": "raw", "path": "../a.tar"}},
        {"prepared": {"claimName": "data", "path": "datasets/k"}},
        {"synthetic": {}},
        {"synthetic": {"imagesPerClass": 3, "imageShape": [1, 8, 8]}},
        {"synthetic": {"imagesPerClass": 50}},
        {"synthetic": {"imagesPerClass": 51}},
        {"synthetic": {}, "prepared": {"claimName": "data", "path": "k"}},
        {},
    ],
    "spec.dataset.volume": [
        {"size": "1Gi"},
        {"claimName": "data"},
        {"size": "0"},
        {},
        ABSENT,
        ONE_POD,
    ],
    "spec.dataset.validation": [
        ABSENT,
        {"split": {}},
        {"split": {"imagesPerClass": 3}},
        {"path": "val.tar", "labels": "val.txt"},
        {"path": "val.tar"},
        {"split": {}, "labels": "val.txt"},
        {},
    ],
    "spec.dataset.preprocessing": [
        ABSENT,
        {},
        {"minImagesPerClass": 0},
        {"shards": 0},
        {"shards": 11, "minImagesPerClass": 0},
        ALONE,
        {"format": "TFRecord"},
    ],
    "spec.training.framework": [ABSENT, "MXNet", "TensorFlow", "Caffe"],
    "spec.training.strategy": [
        {"parameterServer": {}},
        {"parameterServer": {"kvStore": "dist_async", "servers": {"replicas": 2}}},
        {"parameterServer": {"servers": {"template": TEMPLATE}}},
        {"single": {}},
        {"single": {"kvStore": "local"}},
        {"single": {"kvStore": "nccl"}},
        {"single": {}, "parameterServer": {}},
        {"horovod": {}},
        {"horovod": {"slotsPerWorker": 2}},
        {"horovod": {"rendezvous": {"template": TEMPLATE}}},
        {"horovod": {"slotsPerWorker": 4}},
        {"horovod": {"slotsPerWorker": 0}},
        {"horovod": {"slotsPerWorker": 3}, "single": {}},
        {"mirrored": {}},
        {"multiWorkerMirrored": {}},
    ],
    "spec.training.model": [
        {"network": "lenet", "imageShape": [1, 28, 28]},
        {"network": "lenet", "imageShape": [3, 28, 28]},
        {"network": "lenet", "imageShape": []},
        {"network": "lenet", "imageShape": [2, 15, 28]},
        {"network": "resnet", "numLayers": 50},
        {"network": "resnet", "numLayers": 110, "imageShape": [3, 32, 32]},
        {"network": "resnet", "numLayers": 164, "imageShape": [3, 32, 32]},
        {"network": "resnet", "numLayers": 170, "imageShape": [3, 32, 32]},
        {"network": "resnet"},
        {"network": "vgg-bn", "numLayers": 19},
        {"network": "densenet", "numLayers": 19},
        {"network": "inception-v3", "numLayers": 3},
        {"network": "resnet", "numLayers": 50, "imageSizes": [{"epoch": 0, "size": 160}]},
        {"network": "resnet", "numLayers": 50, "imageSizes": [{"epoch": 2, "size": 32}]},
        {"network": "lenet", "imageSizes": [], "validationSize": 15},
        {"network": "vgg-bn", "numLayers": 19, "validationSize": 31},
    ],
    "spec.training.batchSize": [1, 6, 7, 128, 0, "8", ABSENT],
    "spec.training.epochs": [1, 10, 0],
    "spec.training.optimizer": [ABSENT, {}, {"warmupStrategy": "lars"}, {"name": "lbsgd"}],
    "spec.training.workers": [
        ABSENT,
        {},
        {"replicas": 2},
        {"replicas": 3, "gpus": 2},
        {"replicas": 2, "gpus": 4},
        {"gpus": 2},
        {"replicas": 0},
        {"template": TEMPLATE},
    ],
    "spec.training.augmentation": [
        ABSENT,
        {},
        {"randomResizedCrop": True},
        {"randomResizedCrop": True, "randomCrop": True},
        {"randomResizedCrop": True, "minRandomScale": 0.5},
        {"randomResizedCrop": True, "minRandomScale": 1, "maxRandomScale": 1.0},
        {"randomCrop": True, "maxRandomScale": 2},
        {"randomResizedCrop": True, "maxRandomArea": 0.5},
        {"randomResizedCrop": True, "minRandomArea": 0.5, "maxRandomArea": 0.5},
        {"maxRandomArea": 0.5, "minRandomAspectRatio": 2, "maxRandomAspectRatio": 1},
        {"randomResizedCrop": True, "minRandomAspectRatio": 1},
        {"randomResizedCrop": True, "minRandomAspectRatio": 1, "maxRandomAspectRatio": 1.0},
        {"randomResizedCrop": True, "maxRandomAspectRatio": 1},
        {"randomResizedCrop": True, "maxRandomAspectRatio": 0.5},
        {"maxRandomH": 36},
        {"pcaNoise": 1},
        {"brightness": 0, "contrast": 0.5},
    ],
    "spec.training.output": [
        ABSENT,
        {"volume": {"claimName": "out"}},
        {"volume": {}},
        {"volume": ONE_POD},
    ],
    "spec.training.image": [ABSENT, "own:1", ""],
    "spec.training.extraArgs": [ABSENT, [], ["--disp-batches", "9"], ["--lr=3"], ["--lrx"]],
    "spec.runPolicy": [ABSENT, {"suspend": True}, {"backoffLimit": -1}, {"unknown": 1}, MANAGED],
}
STARTED = {"startTime": "2024-01-31T12:00:00Z"}
SUSPENDED = {
    "type": "Suspended",
    "reason": "Suspended",
    "lastTransitionTime": "2024-01-31T13:00:00Z",
}
STATUSES: list[dict[str, Any]] = [
    {},
    STARTED,
    {**STARTED, "conditions": [{**SUSPENDED, "status": "False"}]},
    {**STARTED, "conditions": [{**SUSPENDED, "status": "True"}]},
]


TENSORFLOW = {
    "spec.training.framework": "TensorFlow",
    "spec.dataset.preprocessing": {"format": "TFRecord"},
    "spec.training.strategy": {"multiWorkerMirrored": {}},
}


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest with up to four fields that are not those of the base."""
    document = copy.deepcopy(BASE)
    for path, value in (TENSORFLOW if draw(st.booleans()) else {}).items():
        _write(document, path, value)
    for path in draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=4, unique=True)):
        _write(document, path, draw(st.sampled_from(VALUES[path])))
    return document


def _write(document: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split(".")
    node = document
    for name in parents:
        node = node[name]
    if value is ABSENT:
        node.pop(last, None)
    else:
        node[last] = copy.deepcopy(value)


def refused(document: dict[str, Any], stored: dict[str, Any] | None = None) -> set[str]:
    return {found.path for found in validate(document, stored) if found.stage == "schema"}


@pytest.mark.costly
@settings(deadline=None, max_examples=70)
@given(manifests())
def test_the_verdict_is_that_of_the_crd(document: dict[str, Any]) -> None:
    by_crd, by_models = problem_paths(SCHEMA, document), refused(document)
    assert bool(by_crd) == bool(by_models)
    # The API server stops at unknown fields and then at wrong types; `validate` names both, and
    # leaves out rules wherever a field is wrong.
    assert by_crd & by_models or not by_crd


@pytest.mark.costly
@settings(deadline=None, max_examples=70)
@given(
    manifests().filter(lambda document: not validate(document)),
    manifests().filter(lambda document: not validate(document)),
    st.sampled_from(STATUSES),
)
def test_the_verdict_on_an_update_is_that_of_the_crd(
    before: dict[str, Any], after: dict[str, Any], status: dict[str, Any]
) -> None:
    before["status"] = status
    assert refused(after, before) == problem_paths(SCHEMA, after, before)


@pytest.mark.costly
@settings(deadline=None, max_examples=40)
@given(manifests().filter(lambda document: not validate(document)))
def test_good_manifests_break_no_rule_one_by_one(document: dict[str, Any]) -> None:
    """What is good stays good once its defaults are written out."""
    completed = ImageNetJob.model_validate(document).to_manifest()
    assert validate(completed) == []
    assert problem_paths(SCHEMA, completed) == set()

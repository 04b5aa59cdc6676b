"""The hash that ties checkpoints to a job: which changes keep it and which do not."""

import copy
from typing import Any

import pytest

from imagenet_operator.manifests.attempt import training_hash
from support.job_table import TABLE, manifest, read

Manifest = dict[str, Any]


def hash_of(document: Manifest) -> str:
    return training_hash(read(document))


def changed(path: str, value: Any) -> Manifest:
    document = copy.deepcopy(manifest())
    *parents, last = path.split(".")
    target = document["spec"]
    for name in parents:
        target = target.setdefault(name, {})
    target[last] = value
    return document


def test_it_is_a_sha256_and_the_same_each_time() -> None:
    value = hash_of(manifest())
    assert len(value) == 64 and int(value, 16) >= 0
    assert value == hash_of(manifest())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("training.workers", {"replicas": 4, "gpus": 2, "template": {"spec": {"hostNetwork": 1}}}),
        ("training.batchSize", 1024),
        ("training.strategy.parameterServer.servers", {"replicas": 7}),
        ("training.dataThreads", 9),
        ("training.image", "other:1"),
        ("training.imagePullSecrets", [{"name": "registry"}]),
        ("training.checkpoint", {"keep": 1, "everySeconds": 60}),
        ("training.output", {"volume": {"claimName": "results"}}),
        ("dataset.volume", {"claimName": "elsewhere"}),
        ("dataset.license", "CC BY 4.0"),
        ("dataset.preprocessing.parallelism", 2),
        ("dataset.preprocessing.template", {"spec": {}}),
        ("runPolicy.suspend", True),
        ("training.optimizer.learningRate", 0.1),
        ("training.optimizer.learningRateScaling", "none"),
        ("training.augmentation", {"randomCrop": False}),
    ],
)
def test_where_and_how_wide_a_job_runs_does_not_change_it(path: str, value: Any) -> None:
    assert hash_of(changed(path, value)) == hash_of(manifest())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("training.model", {"network": "resnet", "numLayers": 101}),
        ("training.epochs", 91),
        ("training.optimizer.learningRate", 0.2),
        ("training.optimizer.learningRateScaling", "linear"),
        ("training.augmentation.randomCrop", True),
        ("training.strategy.parameterServer.kvStore", "dist_async"),
        ("training.extraArgs", ["--seed", "1"]),
        ("dataset.source", {"volume": {"claimName": "raw", "path": "other.tar"}}),
        ("dataset.preprocessing.seed", 1),
        ("dataset.preprocessing.resize", 256),
        ("dataset.validation", {"split": {"imagesPerClass": 5}}),
    ],
)
def test_what_is_trained_changes_it(path: str, value: Any) -> None:
    assert hash_of(changed(path, value)) != hash_of(manifest())


def test_the_strategy_counts_even_with_all_its_defaults() -> None:
    one_worker = {"workers": {"replicas": 1}}
    servers = manifest(training={**one_worker, "strategy": {"parameterServer": {}}})
    single = manifest(training={**one_worker, "strategy": {"single": {}}})
    assert hash_of(servers) != hash_of(single)


def test_where_and_in_how_many_slots_horovod_runs_does_not_count() -> None:
    placed = {"template": {"spec": {"nodeSelector": {"pool": "cpu"}}}}
    elsewhere = {"slotsPerWorker": 2, "rendezvous": placed}
    plain, changed = (
        manifest(training={"strategy": {"horovod": fields}}) for fields in ({}, elsewhere)
    )
    assert hash_of(plain) == hash_of(changed)


def test_the_name_does_not_count() -> None:
    assert hash_of(TABLE["longest name"]) == hash_of(TABLE["defaults"])

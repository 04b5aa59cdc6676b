"""Manifests that people copy are valid, here and by the CRD, and are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from imagenet_operator.cli.main import main
from imagenet_operator.manifests import volumes
from imagenet_operator.manifests.settings import DEFAULTS
from imagenet_spec.load import load
from imagenet_spec.resource.job import root_schema
from imagenet_spec.resource.strategies import Strategy
from imagenet_spec.resource.training import devices
from imagenet_spec.validate import parse, validate
from support.crd_evaluator import problem_paths

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = {path.stem: path for path in sorted([*FOLDER.glob("*.yaml"), *FOLDER.glob("r/*.yaml")])}
FROM_A_SOURCE = {"imagenet-resnet50-fast": 1.7}
"""Learning rates of published recipes; those of other examples grow with the batch."""
CIFAR = ("cifar10", "cifar10-machines", "cifar10-resnet9")
SCHEMA = root_schema()


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_valid(path: Path) -> None:
    (document,) = load(path)
    assert validate(document) == []
    assert problem_paths(SCHEMA, document) == set()


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_called_after_its_file(path: Path) -> None:
    (document,) = load(path)
    assert document["metadata"]["name"] == path.stem


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_rendered(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (document,) = load(path)
    replicas = parse(document).spec.training.workers.replicas

    assert main(["render", str(path)]) == 0

    pods = [item for item in yaml.safe_load_all(capsys.readouterr().out) if item["kind"] == "Pod"]
    assert sum("-r0-worker-" in item["metadata"]["name"] for item in pods) == replicas


def test_the_tutorials_job_has_its_figures() -> None:
    (document,) = load(EXAMPLES["imagenet-resnet152"])
    training = parse(document).spec.training
    assert (training.workers.replicas, training.workers.gpus) == (16, 16)
    assert training.batch_size == 8192
    assert training.batch_size // devices(training) == 32
    assert training.epochs == 90
    assert training.strategy.parameter_server is not None
    assert training.strategy.parameter_server.kv_store == "dist_device_sync"


def test_the_digits_are_the_same_job_in_a_cluster_and_without() -> None:
    (local,), (cluster,) = load(EXAMPLES["digits"]), load(EXAMPLES["digits-kubernetes"])
    # Any storage serves, and workers request what they need.
    assert cluster["spec"]["dataset"]["volume"].pop("accessModes") == ["ReadWriteOnce"]
    del cluster["spec"]["training"]["workers"]["template"]
    assert cluster["spec"] == local["spec"]


STRATEGIES = {
    "digits-horovod": ("MXNet", "horovod", 2),
    "digits-pytorch": ("PyTorch", "distributedDataParallel", 2),
    "digits-single": ("MXNet", "single", 1),
    "digits-tensorflow": ("TensorFlow", "multiWorkerMirrored", 2),
    "digits-tensorflow-horovod": ("TensorFlow", "horovod", 2),
    "digits-tensorflow-mirrored": ("TensorFlow", "mirrored", 1),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_digits_of_every_strategy_differ_in_its_block_alone(name: str) -> None:
    (document,), (digits,) = load(EXAMPLES[name]), load(EXAMPLES["digits"])
    framework, kind, workers = STRATEGIES[name]
    training, original = document["spec"]["training"], digits["spec"]["training"]

    assert (training.pop("framework", "MXNet"), training.pop("workers")) == (
        framework,
        {"replicas": workers},
    )
    assert list(training.pop("strategy")) == [kind]
    if framework == "TensorFlow":
        assert document["spec"]["dataset"]["preprocessing"].pop("format") == "TFRecord"
    del original["strategy"], original["workers"]
    assert document["spec"] == digits["spec"]


def test_every_strategy_has_its_digits() -> None:
    shown = {parse(load(EXAMPLES[name])[0]).spec.training.strategy.kind for name in STRATEGIES}
    assert shown | {"parameterServer"} == set(Strategy.kinds())


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.startswith("imagenet-")])
def test_several_machines_share_their_volumes(name: str) -> None:
    (document,) = load(EXAMPLES[name])
    spec = parse(document).spec
    volumes = [spec.dataset.volume, spec.training.output and spec.training.output.volume]
    modes = {mode for volume in volumes if volume for mode in volume.access_modes or ()}
    assert modes == {"ReadWriteOnce" if spec.training.workers.replicas == 1 else "ReadWriteMany"}


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.startswith("imagenet-")])
def test_the_learning_rate_grows_with_the_batch(name: str) -> None:
    (document,) = load(EXAMPLES[name])
    training = parse(document).spec.training
    linear = 0.1 * training.batch_size / 256
    assert training.optimizer.learning_rate == pytest.approx(FROM_A_SOURCE.get(name, linear))


def test_the_fast_recipe_is_ffcvs() -> None:
    (document,) = load(EXAMPLES["imagenet-resnet50-fast"])
    training = parse(document).spec.training
    sizes = [(one.epoch, one.size) for one in training.model.image_sizes or ()]
    # Those of its get_resolution, with a ramp from epoch 11 to epoch 13.
    ramp = [160 + 32 * min(max((epoch - 11) / 2, 0), 1) for epoch in range(training.epochs)]
    found = [max(one for one in sizes if one[0] <= epoch)[1] for epoch in range(training.epochs)]
    assert found == [32 * round(side / 32) for side in ramp]
    assert training.model.validation_size == 256
    assert training.batch_size // devices(training) == 512


def test_cifar_10_is_fetched_into_one_cache_by_all_that_train_on_it() -> None:
    sources = [parse(load(EXAMPLES[name])[0]).spec.dataset.source for name in CIFAR]
    assert len({source.model_dump_json() for source in sources}) == 1
    fetched = sources[0].http
    assert fetched is not None and fetched.cache is not None
    # The checksum that CIFAR's page has for the binary version.
    assert fetched.files[0].checksum == "md5:c32a1d4ab5d03f1284b67883e8d87530"


def test_the_place_for_archives_is_the_one_that_examples_read() -> None:
    claim, pod = yaml.safe_load_all((FOLDER / "claims" / "raw.yaml").read_text())
    (document,) = load(EXAMPLES["digits-kubernetes"])
    source = parse(document).spec.dataset.source.volume
    assert source is not None
    assert claim["metadata"]["name"] == source.claim_name
    (volume,) = pod["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": source.claim_name}
    assert pod["spec"]["containers"][0]["image"] == DEFAULTS.preparation_image


def test_the_snapshot_is_of_one_example_s_dataset_and_for_the_other() -> None:
    snapshot, claim = yaml.safe_load_all((FOLDER / "claims" / "snapshot.yaml").read_text())
    first, second = (
        volumes.dataset_claim(parse(load(EXAMPLES[f"imagenet-{name}"])[0]))
        for name in ("archives", "snapshot")
    )
    assert snapshot["spec"]["source"]["persistentVolumeClaimName"] == first
    assert claim["spec"]["dataSource"] == {
        "apiGroup": snapshot["apiVersion"].partition("/")[0],
        "kind": snapshot["kind"],
        "name": snapshot["metadata"]["name"],
    }
    assert claim["metadata"]["name"] == second


def test_one_example_publishes_what_the_other_trains_from() -> None:
    first, second = (
        parse(load(EXAMPLES[f"imagenet-{name}"])[0]).spec.dataset
        for name in ("publish", "published")
    )
    assert first.publish is not None
    assert first.publish.s3 is not None
    assert second.source.prepared is not None
    assert second.source.prepared.s3 is not None
    secret = {"secret_name"}
    assert first.publish.s3.model_dump(exclude=secret) == second.source.prepared.s3.model_dump(
        exclude=secret
    )

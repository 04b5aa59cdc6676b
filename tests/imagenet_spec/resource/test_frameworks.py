"""A framework is what its descriptor says; nothing else knows one by its name."""

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic.alias_generators import to_snake

import imagenet_operator
from imagenet_spec import resource, strategies
from imagenet_spec.frameworks import DEFAULT_FORMAT, DEFAULT_FRAMEWORK, FRAMEWORKS
from imagenet_spec.frameworks.descriptor import (
    Family,
    Framework,
    GPUCode,
    Images,
    StrategySupport,
)
from imagenet_spec.program.train import OptimizerName
from imagenet_spec.resource import ImageNetJob, capabilities
from imagenet_spec.resource.augmentation import Augmentation
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.frameworks import NETWORKS
from imagenet_spec.resource.networks import Network
from imagenet_spec.resource.strategies import STRATEGIES
from imagenet_spec.resource.training import Optimizer, TrainingSpec
from imagenet_spec.rules import broken
from support.job_table import manifest

PACKAGES = [Path(package.__path__[0]) for package in (imagenet_operator, resource)]

NUMPY = Framework(
    name="NumPy",
    formats=("RecordIO",),
    networks={"softmax": Family()},
    strategies={"single": StrategySupport()},
    images=Images("numpy:1", "numpy:1"),
    lacks=("random_crop", "min_random_aspect_ratio", "dtype"),
    lacks_values={"optimizer": ("adam",)},
)


def texts(source: str) -> Iterator[str]:
    """Yield the texts of a module, those that are put together from parts among them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def names_a_framework(text: str) -> bool:
    """Whether a text is a framework's name, or compares with it in CEL."""
    return any(text == name or f"'{name}'" in text for name in FRAMEWORKS)


@pytest.mark.parametrize(
    "code",
    ["framework == 'MXNet'", '{"TensorFlow": 1}', "f\"{path} != 'MXNet' || {cel}\""],
)
def test_what_the_next_test_looks_for_is_found(code: str) -> None:
    assert any(map(names_a_framework, texts(code)))


def test_no_module_but_the_descriptors_names_a_framework() -> None:
    naming = {
        str(path.relative_to(package))
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path.parent.name != "frameworks"
        if any(map(names_a_framework, texts(path.read_text())))
    }
    assert naming == set()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_descriptor_names_what_the_resource_has(name: str) -> None:
    framework = FRAMEWORKS[name]
    assert framework.name == name
    assert framework.formats and framework.networks and framework.strategies
    assert framework.strategies.keys() <= STRATEGIES.keys()
    assert set(framework.lacks_optimizers) < set(get_args(OptimizerName))
    fields = Augmentation.model_fields.keys()
    for item in framework.lacks_fields:
        model, _, name = to_snake(item.field.removeprefix("training.")).rpartition(".")
        owners: dict[str, type[Model]] = {"optimizer": Optimizer, "model": Network}
        owner = owners.get(model, TrainingSpec)
        assert owner.model_fields[name].default is None
    assert {*framework.lacks_augmentations, *framework.lacks_grey_augmentations} <= fields


def test_a_network_of_several_frameworks_is_one() -> None:
    for framework, (name, family) in itertools.product(FRAMEWORKS.values(), NETWORKS.items()):
        assert framework.networks.get(name, family) == family


def test_the_default_format_is_read_by_the_default_framework() -> None:
    assert FRAMEWORKS[DEFAULT_FRAMEWORK].formats[0] == DEFAULT_FORMAT


@pytest.mark.parametrize(
    ("code", "runs", "fails", "words"),
    [
        (FRAMEWORKS["MXNet"].gpu_code, [(5, 2), (7, 5), (8, 9)], [(3, 7), (9, 0)], "5.0 to 8.x"),
        (FRAMEWORKS["TensorFlow"].gpu_code, [(5, 0), (8, 0), (9, 0)], [(3, 7)], "5.0 and newer"),
        (FRAMEWORKS["PyTorch"].gpu_code, [(7, 5), (9, 0), (10, 3)], [(7, 0)], "7.5 to 12.x"),
        (GPUCode(((7, 5),)), [(7, 5)], [(7, 0), (8, 0)], "7.5 to 7.x"),
        (GPUCode(), [], [(8, 0)], "none"),
    ],
)
def test_machine_code_runs_on_its_generation_and_ptx_on_any_later(
    code: GPUCode, runs: list[tuple[int, int]], fails: list[tuple[int, int]], words: str
) -> None:
    assert all(map(code.runs_on, runs)) and not any(map(code.runs_on, fails))
    assert str(code) == words


def training(framework: str, **fields: Any) -> TrainingSpec:
    """Return a training of a framework that the resource does not know."""
    document = manifest(training={"strategy": {"single": {}}, **fields})
    spec = ImageNetJob.model_validate(document).spec.training
    return spec.model_copy(update={"framework": framework})


@pytest.fixture
def blamed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function: the fields that the rules of three frameworks blame."""
    monkeypatch.setattr(capabilities, "FRAMEWORKS", {**FRAMEWORKS, "NumPy": NUMPY})
    monkeypatch.setattr(capabilities, "NETWORKS", {**NETWORKS, **NUMPY.networks})
    rules = list(capabilities.rules())
    return lambda spec: [rule.field for rule in broken(rules, spec.to_manifest())]


def test_no_rule_takes_a_third_framework_for_one_of_the_others(blamed: Any) -> None:
    grey = {"network": "lenet", "imageShape": [1, 28, 28]}
    others = {
        "augmentation": {"maxRandomS": 3, "randomResizedCrop": True, "maxRandomAspectRatio": 1},
        "optimizer": {"name": "lbsgd"},
        "extraArgs": ["--monitor=1"],
        "model": grey,
    }
    assert blamed(training("NumPy", **others)) == ["model.network"]
    refused = ["augmentation", "augmentation.maxRandomAspectRatio"]
    assert [f for f in blamed(training("MXNet", **others)) if f in refused] == refused
    assert set(blamed(training("TensorFlow", **others))) == {
        *("optimizer.name", "augmentation", "extraArgs"),
    }


def test_what_a_third_framework_lacks_is_refused_for_it_alone(blamed: Any) -> None:
    lacking = {
        "augmentation": {"randomCrop": True, "minRandomAspectRatio": 0.5},
        "optimizer": {"name": "adam"},
        "extraArgs": ["--dtype", "float16"],
        "workers": {"gpus": 1},
    }
    assert set(blamed(training("NumPy", **lacking))) == {
        *("model.network", "optimizer.name", "augmentation", "extraArgs"),
    }
    assert blamed(training("MXNet", **lacking)) == []


def test_every_strategy_has_fields_and_a_descriptor() -> None:
    assert list(strategies.STRATEGIES) == list(STRATEGIES)

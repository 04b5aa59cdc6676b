"""Every framework is registered on both sides, and the two sides say the same of it."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from imagenet_operator.api.augmentation import Augmentation
from imagenet_operator.api.frameworks import DEFAULT_FRAMEWORK
from imagenet_operator.api.frameworks import FRAMEWORKS as OPERATOR
from imagenet_operator.api.options import OPERATOR_OPTIONS
from imagenet_spec.program.option import flag, written
from imagenet_spec.program.train import OPTIONS
from imagenet_workloads import frameworks, rendezvous
from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks import DEFAULT
from imagenet_workloads.frameworks import FRAMEWORKS as WORKLOADS
from imagenet_workloads.frameworks.mxnet import gpus
from imagenet_workloads.train.options import Options
from support.pod_subset import REPOSITORY

MODULES = (
    "checkpoint_files",
    "data",
    "framework",
    "networks",
    "optimizers",
    "predictor",
    "strategies",
)
PACKAGES = (
    REPOSITORY / "operator" / "imagenet_operator",
    REPOSITORY / "workloads" / "imagenet_workloads",
)


def test_every_framework_is_registered_on_both_sides() -> None:
    assert set(OPERATOR) == set(WORKLOADS)
    assert DEFAULT_FRAMEWORK == DEFAULT == Options().cluster.framework


@pytest.mark.parametrize("name", OPERATOR)
def test_both_sides_name_the_same_that_saves_memory(name: str) -> None:
    operator, workloads = OPERATOR[name], WORKLOADS[name]
    assert operator.memory_variable == workloads.memory_variable
    assert operator.memory_field == workloads.memory_option
    if operator.memory_field is not None:
        field = f"spec.training.{to_camel(operator.memory_field)}"
        assert OPERATOR_OPTIONS[flag(operator.memory_field)] == field


def test_both_sides_name_one_gpu_code_of_mxnet() -> None:
    machine_code = OPERATOR[DEFAULT_FRAMEWORK].gpu_code.machine_code
    assert tuple(f"sm_{major}{minor}" for major, minor in machine_code) == gpus.CODE


def test_every_folder_is_registered() -> None:
    folders = {path.parent.name for path in Path(*frameworks.__path__).glob("*/description.py")}
    assert folders == {one.package.rpartition(".")[2] for one in WORKLOADS.values()}


@pytest.mark.parametrize("name", WORKLOADS)
def test_its_folder_has_the_modules_of_the_others(name: str) -> None:
    missing = [
        module
        for module in MODULES
        if importlib.util.find_spec(f"{WORKLOADS[name].package}.{module}") is None
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "strategy"),
    [(name, strategy) for name, one in WORKLOADS.items() for strategy in one.strategies],
)
def test_every_strategy_has_its_modules(name: str, strategy: str) -> None:
    described, modules = WORKLOADS[name], WORKLOADS[name].strategies[strategy]
    # As a file: the package of strategies imports the framework.
    folder = Path(*frameworks.__path__, described.package.rpartition(".")[2], "strategies")
    assert (folder / f"{modules.strategy}.py").is_file()
    assert importlib.util.find_spec(f"{rendezvous.__name__}.{modules.rendezvous}") is not None


@pytest.mark.parametrize(
    ("name", "strategy"),
    [(name, strategy) for name, one in OPERATOR.items() for strategy in one.strategies],
)
def test_the_options_of_a_strategy_name_it_to_the_program(name: str, strategy: str) -> None:
    options = ["--framework", name, *written(OPTIONS, OPERATOR[name].strategies[strategy].options)]
    parsed = parse(options)
    assert parsed.cluster.framework == name
    assert WORKLOADS[name].strategy_of(parsed) in WORKLOADS[name].strategies


@pytest.mark.parametrize("name", OPERATOR)
def test_what_the_resource_refuses_is_what_the_program_lacks(name: str) -> None:
    lacks = {option for options in WORKLOADS[name].lacks.values() for option in options}
    assert set(OPERATOR[name].lacks_augmentations) == lacks & Augmentation.model_fields.keys()
    assert {option.replace("-", "_") for option in OPERATOR[name].lacks_options} <= lacks


@pytest.mark.parametrize("name", OPERATOR)
def test_the_program_builds_the_networks_that_the_resource_names(name: str) -> None:
    assert set(OPERATOR[name].networks) <= set(WORKLOADS[name].load("networks").FAMILIES)


def compared(file: Path) -> Iterator[str]:
    """Give the texts that a module compares with, looks up or matches."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Compare | ast.MatchValue | ast.Subscript | ast.Dict):
            yield from (
                part.value
                for part in ast.walk(node)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )


def test_nothing_else_compares_with_a_frameworks_name() -> None:
    found = {
        (str(file.relative_to(REPOSITORY)), text)
        for package in PACKAGES
        for file in package.rglob("*.py")
        if "frameworks" not in file.relative_to(package).parts
        for text in compared(file)
        # In CEL, too, whose strings have single quotes.
        if text in WORKLOADS or any(f"'{name}'" in text for name in WORKLOADS)
    }
    assert found == set()

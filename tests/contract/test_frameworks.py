"""Every framework has its folder of the workloads, and nothing else knows its name."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_spec.frameworks import DEFAULT_FRAMEWORK
from imagenet_spec.frameworks import FRAMEWORKS as OPERATOR
from imagenet_spec.program.option import written
from imagenet_spec.program.train import OPTIONS, Options
from imagenet_workloads import frameworks, rendezvous
from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks import FRAMEWORKS as WORKLOADS
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
    REPOSITORY / "spec" / "imagenet_spec",
    REPOSITORY / "operator" / "imagenet_operator",
    REPOSITORY / "workloads" / "imagenet_workloads",
)


def test_every_framework_has_its_folder() -> None:
    assert set(OPERATOR) == set(WORKLOADS)
    assert Options().cluster.framework == DEFAULT_FRAMEWORK


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
    described = WORKLOADS[name]
    # As a file: the package of strategies imports the framework.
    folder = Path(*frameworks.__path__, described.package.rpartition(".")[2], "strategies")
    assert (folder / f"{described.strategies[strategy]}.py").is_file()
    module = f"{rendezvous.__name__}.{described.rendezvous[strategy]}"
    assert importlib.util.find_spec(module) is not None


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

"""PyTorch's code reads and exchanges no pickles, which would run code of whoever wrote them."""

import ast
from collections.abc import Iterator

import pytest

from imagenet_workloads.frameworks import FRAMEWORKS
from support.pod_subset import REPOSITORY

FOLDER = REPOSITORY.joinpath("workloads", *FRAMEWORKS["PyTorch"].package.split("."))
MODULES = ("cloudpickle", "dill", "joblib", "pickle", "shelve", "torch.multiprocessing")
# Functions of torch that pickle. An error's name is no use of pickles.
FUNCTIONS, HARMLESS = ("load", "save"), ("UnpicklingError",)


def uses(source: str) -> Iterator[str]:
    """Give each use of pickles in a module."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name in MODULES)
            case ast.ImportFrom(module=module, names=names):
                found = MODULES if module in MODULES else ()
                yield from (one.name for one in names if found and one.name not in HARMLESS)
                yield from (
                    one.name for one in names if module == "torch" and one.name in FUNCTIONS
                )
                yield from (one.name for one in names if "_object" in one.name)
            case ast.Attribute(attr=name) if "_object" in name:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name)):
                if name == "save" or (name == "load" and not _reads_weights_only(node)):
                    yield f"torch.{name}"


def _reads_weights_only(call: ast.Call) -> bool:
    given = {one.arg: one.value for one in call.keywords}.get("weights_only")
    return isinstance(given, ast.Constant) and given.value is True


def test_no_module_uses_pickles() -> None:
    files = sorted(FOLDER.rglob("*.py"))
    assert any("weights_only=True" in file.read_text() for file in files)
    found = {file.name: list(uses(file.read_text())) for file in files}
    assert {name: listed for name, listed in found.items() if listed} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import pickle", ["pickle"]),
        ("from pickle import UnpicklingError, loads", ["loads"]),
        ("from torch import load, nn", ["load"]),
        ("torch.load(path, map_location='cpu')", ["torch.load"]),
        ("torch.load(path, weights_only=False)", ["torch.load"]),
        ("torch.load(path, weights_only=True)", []),
        ("torch.save(network, path)", ["torch.save"]),
        ("distributed.all_gather_object(found, own)", ["all_gather_object"]),
        ("from torch.distributed import broadcast_object_list", ["broadcast_object_list"]),
    ],
)
def test_a_use_is_found(source: str, expected: list[str]) -> None:
    assert list(uses(source)) == expected

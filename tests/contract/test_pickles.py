"""PyTorch's code reads and exchanges no pickles, which could contain code that runs."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

import pytest

from imagenet_workloads.frameworks import FRAMEWORKS
from support.pod_subset import REPOSITORY

FOLDER = REPOSITORY.joinpath("workloads", *FRAMEWORKS["PyTorch"].package.split("."))
MODULES = (
    *("cloudpickle", "dill", "joblib", "pickle", "shelve"),
    *("torch.multiprocessing", "torch.serialization"),
)
FUNCTIONS = ("torch.load", "torch.save")
# An error's name is no use of pickles.
HARMLESS = ("pickle.UnpicklingError",)


def uses(source: str) -> Iterator[str]:
    """Give each use of pickles in a module, by full names."""
    tree = ast.parse(source)
    imported = dict(_imported(tree))
    safe = {id(node.func) for node in ast.walk(tree) if _reads_weights_only(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if _is_forbidden(one.name))
            case ast.ImportFrom(module=str(module), names=names):
                full = (f"{module}.{one.name}" for one in names)
                yield from (name for name in full if _is_forbidden(name))
            case ast.Attribute(attr=attribute) if id(node) not in safe:
                name = _full_name(node, imported)
                if name in (*MODULES, *FUNCTIONS) or "_object" in attribute:
                    yield name
            case ast.Call(func=function, args=arguments):
                # Its third argument is allow_pickle.
                if _full_name(function, imported) == "numpy.load" and len(arguments) > 2:
                    yield "numpy.load"
            case ast.keyword(arg="allow_pickle", value=value):
                if not (isinstance(value, ast.Constant) and value.value is False):
                    yield "allow_pickle"


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Give each local name of an import, and its full name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for one in names:
                    root = one.name.partition(".")[0]
                    yield (one.asname, one.name) if one.asname else (root, root)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((one.asname or one.name, f"{module}.{one.name}") for one in names)


def _full_name(node: ast.expr, imported: dict[str, str]) -> str:
    match node:
        case ast.Attribute(value=value, attr=attribute):
            return f"{_full_name(value, imported)}.{attribute}"
        case ast.Name(id=name):
            return imported.get(name, name)
    return ""


def _is_forbidden(name: str) -> bool:
    of_module = any(f"{name}.".startswith(f"{module}.") for module in MODULES)
    return (of_module or name in FUNCTIONS or "_object" in name) and name not in HARMLESS


def _reads_weights_only(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call):
        return False
    given = {one.arg: one.value for one in node.keywords}.get("weights_only")
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
        ("from pickle import UnpicklingError, loads", ["pickle.loads"]),
        ("from pickle import *", ["pickle.*"]),
        ("from torch import load, nn", ["torch.load"]),
        ("from torch import multiprocessing", ["torch.multiprocessing"]),
        ("import torch.multiprocessing as processes", ["torch.multiprocessing"]),
        ("import torch\ntorch.multiprocessing.spawn(main)", ["torch.multiprocessing"]),
        ("from torch.serialization import load", ["torch.serialization.load"]),
        ("torch.load(path, map_location='cpu')", ["torch.load"]),
        ("torch.load(path, weights_only=False)", ["torch.load"]),
        ("torch.load(path, weights_only=True)", []),
        ("import torch as t\nt.load(path)", ["torch.load"]),
        ("import torch as t\nt.load(path, weights_only=True)", []),
        ("read = torch.load", ["torch.load"]),
        ("torch.save(network, path)", ["torch.save"]),
        ("numpy.load(path, allow_pickle=True)", ["allow_pickle"]),
        ("import numpy as np\nnp.load(path, None, True)", ["numpy.load"]),
        ("numpy.load(path, allow_pickle=False)", []),
        ("distributed.all_gather_object(found, own)", ["distributed.all_gather_object"]),
        (
            "from torch.distributed import broadcast_object_list",
            ["torch.distributed.broadcast_object_list"],
        ),
    ],
)
def test_a_use_is_found(source: str, expected: list[str]) -> None:
    assert list(uses(source)) == expected

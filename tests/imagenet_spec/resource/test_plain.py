"""What no JSON has is a problem with its field, and never an exception."""

from __future__ import annotations

import copy
import datetime
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_operator.sdk import submission
from imagenet_spec.load import faults
from imagenet_spec.validate import validate
from support import job_table
from support.sentences import assert_says

TEMPLATE = "spec.training.workers.template"
Manifest = dict[str, Any]


def changed(path: str, value: object) -> Manifest:
    """Return a good manifest with one field set."""
    document: Manifest = copy.deepcopy(job_table.manifest())
    *parents, last = path.split(".")
    node = document
    for name in parents:
        node = node.setdefault(name, {})
    node[last] = value
    return document


def itself() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth - 1):
        found = {"a": found}
    return found


def repeated(levels: int) -> list[object]:
    """Return a few lists that are many when they are written out, as aliases make them."""
    found: list[object] = [0]
    for _ in range(levels):
        found = [found] * 10
    return found


# A value, where below the field the problem is (None: at some depth), and its facts.
FAULTS: list[tuple[object, str | None, tuple[str, ...]]] = [
    (b"hi", "", ("is binary data (!!binary)", "write it as text", "in quotes")),
    (datetime.date(2024, 1, 31), "", ("is a time (!!timestamp)", "as text", "in quotes")),
    (datetime.datetime(2024, 1, 31), "", ("is a time (!!timestamp)", "as text", "in quotes")),
    ({"a"}, "", ("is a set (!!set)", "write a list")),
    (("a", 1), "", ("is a pair (!!omap or !!pairs)", "write an object")),
    (object(), "", ("is a Python object", "write a JSON value")),
    (float("nan"), "", ("is not a finite number", "at most 308 digits")),
    (float("-inf"), "", ("is not a finite number", "at most 308 digits")),
    (10**5000, "", ("is not a finite number", "at most 308 digits")),
    ("\ud800", "", ("half of a character", "lone surrogate", "write the whole one")),
    ({b"a": 1}, "", ("a key", "is not text", "in quotes")),
    ({None: 1}, "", ("a key", "is not text", "in quotes")),
    ({float("nan"): 1}, "", ("a key", "is not text", "in quotes")),
    ({"\ud800": 1}, "", ("a key", "is not text", "in quotes")),
    (itself(), "[0]", ("contains itself", "without an alias")),
    (nested(100), None, ("nested more than 100 deep", "fewer levels")),
]


@pytest.mark.parametrize(
    ("value", "below", "facts"), FAULTS, ids=[type(value).__name__ for value, _, _ in FAULTS]
)
@pytest.mark.parametrize(
    "path", [TEMPLATE, "spec.training.epochs", "metadata", "status", "kind", "unknown"]
)
def test_what_no_json_has_is_one_problem_with_its_field(
    path: str, value: object, below: str | None, facts: tuple[str, ...]
) -> None:
    (problem,) = submission.problems(changed(path, value))

    if below is None:
        assert problem.path.startswith(path)
    else:
        assert problem.path == f"{path}{below}"
    assert_says(str(problem), f"{problem.path}: ", *facts)
    assert problem.stage == "document"


def test_every_such_value_is_named() -> None:
    document = changed(TEMPLATE, {"spec": {"a": [1, b"x"]}, 8080: {"c"}})
    assert [problem.path for problem in validate(document)] == [
        f"{TEMPLATE}.spec.a[1]",
        f"{TEMPLATE}.8080",
    ]


def test_what_is_repeated_is_no_fault() -> None:
    """An alias beside what it names is written out, as `kubectl apply` does."""
    labels = {"team": "vision"}
    document = changed(TEMPLATE, {"metadata": {"labels": labels, "annotations": labels}})
    assert submission.problems(document) == []


def test_keys_that_json_writes_as_text_are_text() -> None:
    """As with `kubectl apply`: a port or a year needs no quotes."""
    labels = {8080: "a", 1.5: "b", True: "c"}
    assert submission.problems(changed(TEMPLATE, {"metadata": {"annotations": labels}})) == []


def test_numbers_may_be_as_large_as_a_double() -> None:
    assert list(faults({"a": [1.7e308, -1.7e308, 10**308, 2**70]})) == []


def test_a_few_aliases_that_are_a_million_values_are_refused_at_once() -> None:
    (problem,) = validate(changed(TEMPLATE, repeated(20)))
    assert_says(str(problem), "100000 values", "alias")


def test_depth_is_counted_from_the_document() -> None:
    assert list(faults(nested(100))) == []
    (problem,) = faults(nested(101))
    assert problem.path == "a.a.a.a…"


YAML_VALUES = st.sampled_from(
    [
        "!!binary aGk=",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!!pairs [a: 1]",
        "!!timestamp 2024-01-31",
        "2024-01-31T12:00:00Z",
        "*document",
        "&here [*here]",
        "&here {a: {b: *here}}",
        "{? !!binary aGk= : 1}",
        "{~: 1}",
        "{2024-01-31: 1}",
        ".nan",
        "-.inf",
        "1" * 400,
        '"\\udfff"',
        "[" * 150 + "]" * 150,
    ]
)
FIELDS = st.sampled_from(["apiVersion", "metadata", "spec", "status", "more"])


@settings(deadline=None)
@given(st.dictionaries(FIELDS, YAML_VALUES, min_size=1))
def test_whatever_yaml_gives_there_is_a_verdict(values: dict[str, str]) -> None:
    """With PyYAML's own loader, which is the loosest that a caller may bring."""
    # An anchor may be set once.
    lines = [f"{name}: {text.replace('here', name)}" for name, text in values.items()]
    found = submission.problems(yaml.safe_load("\n".join(["&document", *lines])))
    assert found
    for problem in found:
        assert "\n" not in str(problem)
        str(problem).encode()

"""The corpus gets the verdict that it asks for: from `validate`, and from the CRD alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from imagenet_operator.generate.crd import definition
from imagenet_spec.errors import Problem, UnreadableManifest
from imagenet_spec.load import load
from imagenet_spec.validate import validate
from support.corpus import Case, cases
from support.crd_evaluator import broken_rules, problem_paths

SCHEMA = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def _documents(case: Case) -> list[dict[str, Any]]:
    return load(case.path)


def _found(problems: list[Problem]) -> set[tuple[str, str]]:
    return {(problem.stage, problem.path) for problem in problems}


@pytest.mark.parametrize("case", cases("good", "bad"), ids=str)
def test_validate_finds_exactly_the_problems_of_a_manifest(case: Case) -> None:
    try:
        documents = _documents(case)
    except UnreadableManifest:
        assert case.problems == (("document", ""),)
        return
    problems = [problem for document in documents for problem in validate(document)]
    assert _found(problems) == set(case.problems)


@pytest.mark.parametrize("case", cases("updates"), ids=str)
def test_validate_finds_exactly_the_problems_of_an_update(case: Case) -> None:
    stored, update = _documents(case)
    assert validate(stored) == []
    assert _found(validate(update, stored)) == set(case.problems)


@pytest.mark.costly
@pytest.mark.parametrize(
    "case", [case for case in cases("good", "bad") if not case.paths("document")], ids=str
)
def test_the_crd_alone_refuses_the_same_fields(case: Case) -> None:
    found = [path for document in _documents(case) for path in problem_paths(SCHEMA, document)]
    assert set(found) == case.paths("schema")


@pytest.mark.costly
@pytest.mark.parametrize("case", cases("updates"), ids=str)
def test_the_crd_alone_refuses_the_same_changes(case: Case) -> None:
    stored, update = _documents(case)
    assert problem_paths(SCHEMA, update, stored) == case.paths("schema")


def test_every_rule_of_the_crd_is_broken_by_some_file() -> None:
    """Guards the corpus: a rule that nothing breaks is a rule that nothing tests."""
    broken: set[str] = set()
    for case in cases("bad"):
        if not case.paths("document"):
            for document in _documents(case):
                broken |= broken_rules(SCHEMA, document)
    for case in cases("updates"):
        stored, update = _documents(case)
        broken |= broken_rules(SCHEMA, update, stored)
    assert set(_rules(SCHEMA)) - broken == set()


def _rules(schema: dict[str, Any]) -> Iterator[str]:
    yield from (rule["rule"] for rule in schema.get("x-kubernetes-validations", ()))
    for node in schema.get("properties", {}).values():
        yield from _rules(node)

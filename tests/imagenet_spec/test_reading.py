"""What is no manifest, and how a good one is read."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.errors import ImageNetJobError, InvalidJob
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.validate import parse, validate
from support.good_manifest import GOOD, TRAINING, changed

ODD: list[object] = [
    None,
    [],
    3,
    "text",
    {},
    {"kind": "ImageNetJob"},
    {"apiVersion": 1, "kind": []},
]


@pytest.mark.parametrize("document", ODD)
def test_what_is_no_manifest_is_said_to_be_none(document: object) -> None:
    assert {problem.stage for problem in validate(document)} == {"document"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def _places(node: Any, path: str = "") -> list[str]:
    here = [path] if path else []
    if not isinstance(node, dict):
        return here
    return here + [
        place
        for name, child in node.items()
        for place in _places(child, f"{path}.{name}".lstrip("."))
    ]


@settings(deadline=None)
@given(st.sampled_from(_places(GOOD)), JSON)
def test_whatever_stands_in_a_field_there_is_a_verdict(path: str, value: object) -> None:
    document = changed(path, value)
    for problem in validate(document):
        assert "\n" not in str(problem)
    json.dumps(document)


def test_a_manifest_is_read_with_its_defaults() -> None:
    job = parse(GOOD)
    assert isinstance(job, ImageNetJob)
    assert job.spec.training.strategy.parameter_server is not None
    assert job.spec.training.strategy.parameter_server.kv_store == "dist_sync"
    assert job.spec.run_policy.clean_pod_policy == "Running"
    assert validate(job.to_manifest()) == []


def test_a_bad_manifest_is_one_error_with_all_its_problems() -> None:
    document = changed(f"{TRAINING}.batchSize", 0)
    document["spec"]["training"]["epochs"] = 0
    with pytest.raises(InvalidJob) as caught:
        parse(document)
    assert isinstance(caught.value, ImageNetJobError)
    assert [problem.path for problem in caught.value.problems] == [
        "spec.training.batchSize",
        "spec.training.epochs",
    ]
    assert str(caught.value).count("\n") == 1


def test_a_manifest_is_not_changed_by_being_read() -> None:
    document = changed(f"{TRAINING}.output", None)
    before = copy.deepcopy(document)
    validate(document)
    assert document == before

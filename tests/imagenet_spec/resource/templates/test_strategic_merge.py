"""Merging is held to what kubectl itself did with the same patches."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.errors import InvalidTemplate
from imagenet_spec.resource.templates.strategic_merge import POD_TEMPLATE, strategic_merge

FOLDER = Path(__file__).parent
CORPUS: dict[str, Any] = yaml.safe_load((FOLDER / "merge_corpus.yaml").read_text())
EXPECTED: dict[str, Any] = json.loads((FOLDER / "merge_expected.json").read_text())
BASE: dict[str, Any] = CORPUS["base"]


def merged(patch: dict[str, Any]) -> dict[str, Any]:
    return strategic_merge(BASE, patch, POD_TEMPLATE, "template")


def expected(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the pod template whose changed fields were recorded (null: the field went)."""
    return {
        part: {
            name: value
            for name, value in {**BASE[part], **changes.get(part, {})}.items()
            if value is not None
        }
        for part in ("metadata", "spec")
    }


@pytest.mark.parametrize("name", CORPUS["cases"])
def test_merges_as_kubectl_did(name: str) -> None:
    patch, recorded = CORPUS["cases"][name], EXPECTED[name]
    before = copy.deepcopy((BASE, patch))
    if recorded is None:
        with pytest.raises(InvalidTemplate):
            merged(patch)
    else:
        assert merged(patch) == expected(recorded)
    assert (BASE, patch) == before


def test_every_case_is_recorded() -> None:
    assert list(CORPUS["cases"]) == list(EXPECTED)


@pytest.mark.parametrize(
    ("patch", "path", "message"),
    [
        (
            {"spec": {"containers": [{"name": "main"}, {"image": "x"}]}},
            "template.spec.containers[1]",
            "has no name, by which the items of this list are merged",
        ),
        (
            {"spec": {"containers": [{"name": "main", "env": ["A=1"]}]}},
            "template.spec.containers[0].env[0]",
            "write a map with a name",
        ),
        (
            {"spec": {"nodeSelector": {"$patch": "merge"}}},
            "template.spec.nodeSelector.$patch",
            "'merge' is not a directive; write replace or delete",
        ),
        (
            {"spec": {"volumes": [{"name": "data", "$patch": "remove"}]}},
            "template.spec.volumes[0].$patch",
            "'remove' is not a directive; write replace or delete",
        ),
        (
            {"spec": {"$setElementOrder/containers": "main"}},
            "template.spec.$setElementOrder/containers",
            "write a list",
        ),
        (
            {"spec": {"$deleteFromPrimitiveList": ["main"]}},
            "template.spec.$deleteFromPrimitiveList",
            "write $deleteFromPrimitiveList/FIELD",
        ),
        (
            {"metadata": {"finalizers": [{"a": 1}]}},
            "template.metadata.finalizers[0]",
            "write a text or a number",
        ),
    ],
)
def test_a_message_names_the_place(patch: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(InvalidTemplate) as caught:
        merged(patch)
    assert caught.value.path == path
    assert message in str(caught.value)


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
ITEMS = st.lists(NAMES, unique=True).map(lambda names: [{"name": name} for name in names])


@given(original=ITEMS, patch=ITEMS)
def test_a_merged_list_keeps_the_orders_it_came_with(
    original: list[dict[str, str]], patch: list[dict[str, str]]
) -> None:
    result = strategic_merge(
        {"spec": {"volumes": original}}, {"spec": {"volumes": patch}}, POD_TEMPLATE, "template"
    )["spec"]["volumes"]
    assert sorted(item["name"] for item in result) == sorted(
        {item["name"] for item in [*original, *patch]}
    )
    assert [item for item in result if item in patch] == patch
    only_original = [item for item in original if item not in patch]
    assert [item for item in result if item in only_original] == only_original


PATCHES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "containers", "volumes", "env", "name", "finalizers"]
            )
            | st.sampled_from(["$patch", "$retainKeys", "$setElementOrder/env", "resources"]),
            inner | st.sampled_from(["replace", "delete", "main"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(
    patch=st.dictionaries(st.sampled_from(["metadata", "spec"]), PATCHES),
    containers=st.lists(PATCHES, max_size=2),
)
def test_any_patch_merges_or_is_refused_with_a_path(
    patch: dict[str, Any], containers: list[Any]
) -> None:
    if isinstance(patch.get("spec"), dict):
        patch["spec"]["containers"] = containers
    before = copy.deepcopy((BASE, patch))
    try:
        result = merged(patch)
    except InvalidTemplate as error:
        assert error.path.startswith("template")
    else:
        json.dumps(result)
    assert (BASE, patch) == before

"""Taints and tolerations: by table, and against the scheduler's own rule word for word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagenet_operator.reconcile.policies import gang

Manifest = dict[str, Any]
GPU = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
OURS = {"key": "dedicated", "value": "vision", "effect": "NoSchedule"}


def stands(*found: Manifest, **spec: Any) -> bool:
    """Whether a pod with these fields may be put on a node with these taints."""
    kept = gang.taints_of({"taints": list(found)})
    return gang.untolerated(kept, gang.tolerations_of(spec)) is None


@pytest.mark.parametrize(
    ("taint", "tolerations", "tolerated"),
    [
        pytest.param(GPU, [], False, id="nothing is tolerated"),
        pytest.param(GPU, [{"key": "nvidia.com/gpu", "operator": "Exists"}], True, id="exists"),
        pytest.param(GPU, [{"key": "amd.com/gpu", "operator": "Exists"}], False, id="another key"),
        pytest.param(GPU, [{"operator": "Exists"}], True, id="everything"),
        pytest.param(GPU, [{"key": "nvidia.com/gpu"}], True, id="equal, both without a value"),
        pytest.param(OURS, [{"key": "dedicated"}], False, id="equal, without the value"),
        pytest.param(OURS, [{"key": "dedicated", "value": "vision"}], True, id="equal"),
        pytest.param(
            OURS,
            [{"key": "dedicated", "operator": "Equal", "value": "audio"}],
            False,
            id="another value",
        ),
        pytest.param(
            OURS,
            [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}],
            False,
            id="another effect",
        ),
        pytest.param(
            OURS,
            [{"key": "a", "operator": "Exists"}, {"key": "dedicated", "operator": "Exists"}],
            True,
            id="the second of two",
        ),
        pytest.param(
            {"key": "slow", "effect": "PreferNoSchedule"}, [], True, id="a taint that only prefers"
        ),
        pytest.param({"key": "down", "effect": "NoExecute"}, [], False, id="no execute"),
        pytest.param(
            {"key": "down", "effect": "NoExecute"},
            [{"key": "down", "operator": "Exists", "tolerationSeconds": 0}],
            True,
            id="for no time: the scheduler does not look at that",
        ),
        pytest.param(
            {"key": "size", "value": "7", "effect": "NoSchedule"},
            [{"key": "size", "operator": "Gt", "value": "9"}],
            True,
            id="an operator that is not known here",
        ),
    ],
)
def test_what_is_tolerated(taint: Manifest, tolerations: list[Manifest], tolerated: bool) -> None:
    assert stands(taint, tolerations=tolerations) is tolerated


def test_every_taint_has_to_be_tolerated() -> None:
    gpu = {"key": "nvidia.com/gpu", "operator": "Exists"}
    assert not stands(GPU, OURS, tolerations=[gpu])
    assert stands(GPU, OURS, tolerations=[gpu, {"key": "dedicated", "operator": "Exists"}])


def test_a_node_that_is_closed_by_hand_has_a_taint() -> None:
    closed = gang.taints_of({"unschedulable": True})
    assert gang.untolerated(closed, ()) is not None
    everywhere = gang.tolerations_of({"tolerations": [{"operator": "Exists"}]})
    assert gang.untolerated(closed, everywhere) is None


@pytest.mark.parametrize(
    ("taint", "words"),
    [(GPU, "nvidia.com/gpu:NoSchedule"), (OURS, "dedicated=vision:NoSchedule")],
)
def test_a_taint_is_told_as_kubectl_does(taint: Manifest, words: str) -> None:
    (found,) = gang.taints_of({"taints": [taint]})
    assert str(found) == words


def by_the_scheduler(taint: Manifest, toleration: Manifest) -> bool:
    """`ToleratesTaint` of k8s.io/api/core/v1, line by line."""
    if len(toleration.get("effect", "")) > 0 and toleration["effect"] != taint["effect"]:
        return False
    if len(toleration.get("key", "")) > 0 and toleration["key"] != taint["key"]:
        return False
    match toleration.get("operator", ""):
        case "" | "Equal":
            return bool(toleration.get("value", "") == taint.get("value", ""))
        case "Exists":
            return True
        case _:
            return False


EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
WORDS = st.sampled_from(["a", "b"])
TAINTS = st.fixed_dictionaries(
    {"key": WORDS, "effect": EFFECTS}, optional={"value": st.sampled_from(["", "x", "y"])}
)
TOLERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "key": WORDS,
        "operator": st.sampled_from(["", "Equal", "Exists"]),
        "value": st.sampled_from(["", "x", "y"]),
        "effect": st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
        "tolerationSeconds": st.integers(0, 9),
    },
)


@given(st.lists(TAINTS, max_size=3), st.lists(TOLERATIONS, max_size=3))
@example([{"key": "a", "effect": "NoSchedule"}], [{"operator": "Exists"}])
def test_the_scheduler_would_say_the_same(
    found: list[Manifest], tolerations: list[Manifest]
) -> None:
    wanted = all(
        taint["effect"] == "PreferNoSchedule"
        or any(by_the_scheduler(taint, toleration) for toleration in tolerations)
        for taint in found
    )
    assert stands(*found, tolerations=tolerations) is wanted

"""Whether a gang fits: by table, and against all placements of small ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.reconcile.policies.gang import Demand, requests, shortage, untolerated
from imagenet_operator.reconcile.types import Room, Taint, Toleration
from support.attempt_members import GPU
from support.sentences import assert_says

Amounts = dict[str, int]


def exact(amounts: Amounts) -> dict[str, Fraction]:
    return {name: Fraction(amount) for name, amount in amounts.items()}


def is_fitting(asked: list[Amounts], nodes: list[Amounts]) -> bool:
    members = [Demand(f"worker-{number}", exact(item), ()) for number, item in enumerate(asked)]
    rooms = {f"node-{number}": Room(exact(item)) for number, item in enumerate(nodes)}
    return shortage(members, rooms) is None


@pytest.mark.parametrize(
    ("asked", "nodes", "fitting"),
    [
        pytest.param([], [], True, id="nobody"),
        pytest.param([{GPU: 1}], [], False, id="no nodes"),
        pytest.param([{}], [{}], True, id="nothing asked"),
        pytest.param([{GPU: 4}, {GPU: 4}], [{GPU: 8}], True, id="one node for all"),
        pytest.param([{GPU: 4}, {GPU: 4}], [{GPU: 7}], False, id="one device short"),
        pytest.param([{GPU: 4}, {GPU: 4}], [{GPU: 5}, {GPU: 5}], True, id="a node each"),
        pytest.param([{GPU: 4}, {GPU: 4}], [{GPU: 5}, {GPU: 3}], False, id="enough in sum only"),
        pytest.param([{"cpu": 1}, {GPU: 8}], [{GPU: 8, "cpu": 1}], True, id="two resources"),
        pytest.param([{GPU: 1}], [{"cpu": 64}], False, id="a node without the resource"),
        pytest.param([{}, {}], [{"pods": 1}], False, id="no place for a second pod"),
        pytest.param([{}, {}], [{"pods": 2}], True, id="places for two pods"),
        pytest.param(
            [{"cpu": 1}, {"cpu": 1}, {GPU: 1, "cpu": 3}],
            [{GPU: 1, "cpu": 3}, {"cpu": 2}],
            True,
            id="the scarce resource is placed first",
        ),
    ],
)
def test_fits(asked: list[Amounts], nodes: list[Amounts], fitting: bool) -> None:
    assert is_fitting(asked, nodes) is fitting


KEPT_FOR_GPUS = (Taint("nvidia.com/gpu", "NoSchedule"),)
CLOSED = (Taint("node.kubernetes.io/unschedulable", "NoSchedule"),)
ON_GPUS = (Toleration("nvidia.com/gpu", "Exists"),)
ANYWHERE = (Toleration(operator="Exists"),)
Asked = tuple[Amounts, tuple[Toleration, ...]]
Given = tuple[Amounts, tuple[Taint, ...]]


def why_not(asked: list[Asked], nodes: list[Given]) -> str | None:
    members = [
        Demand(f"worker-{number}", exact(amounts), tolerations)
        for number, (amounts, tolerations) in enumerate(asked)
    ]
    rooms = {
        f"node-{number}": Room(exact(amounts), taints)
        for number, (amounts, taints) in enumerate(nodes)
    }
    return shortage(members, rooms)


@pytest.mark.parametrize(
    ("asked", "nodes", "fitting"),
    [
        pytest.param([({GPU: 4}, ON_GPUS)], [({GPU: 4}, KEPT_FOR_GPUS)], True, id="tolerated"),
        pytest.param([({GPU: 4}, ())], [({GPU: 4}, KEPT_FOR_GPUS)], False, id="not tolerated"),
        pytest.param([({GPU: 4}, ON_GPUS)], [({GPU: 4}, CLOSED)], False, id="another taint"),
        pytest.param(
            [({GPU: 4}, ON_GPUS)], [({GPU: 4}, KEPT_FOR_GPUS + CLOSED)], False, id="one of two"
        ),
        pytest.param(
            [({GPU: 4}, ANYWHERE)], [({GPU: 4}, KEPT_FOR_GPUS + CLOSED)], True, id="any taint"
        ),
        pytest.param(
            [({GPU: 4, "cpu": 4}, ON_GPUS), ({"cpu": 2}, ())],
            [({GPU: 4, "cpu": 8}, KEPT_FOR_GPUS), ({"cpu": 2}, ())],
            True,
            id="a pool for each",
        ),
        pytest.param(
            [({GPU: 4, "cpu": 4}, ON_GPUS), ({"cpu": 4}, ())],
            [({GPU: 4, "cpu": 8}, KEPT_FOR_GPUS), ({"cpu": 2}, ())],
            False,
            id="room only where it may not go",
        ),
        pytest.param(
            [({"cpu": 2}, ON_GPUS), ({"cpu": 2}, ())],
            [({"cpu": 2}, ()), ({"cpu": 2}, KEPT_FOR_GPUS)],
            True,
            id="who tolerates leaves the open node to who does not",
        ),
    ],
)
def test_fits_with_taints(asked: list[Asked], nodes: list[Given], fitting: bool) -> None:
    assert (why_not(asked, nodes) is None) is fitting


@pytest.mark.parametrize(
    ("asked", "nodes", "facts"),
    [
        ([({GPU: 4}, ())], [], ["no node for worker-0"]),
        (
            [({GPU: 4}, ()), ({GPU: 4}, ()), ({GPU: 4}, ())],
            [({GPU: 4}, ()), ({GPU: 7}, ())],
            ["0 of 2 nodes", "for worker-2: ", "2 with less than 4 nvidia.com/gpu free"],
        ),
        (
            [({GPU: 4}, ())],
            [({}, ()), ({GPU: 4}, KEPT_FOR_GPUS), ({GPU: 4}, KEPT_FOR_GPUS)],
            [
                "0 of 3 nodes",
                "for worker-0: ",
                "2 with the taint nvidia.com/gpu:NoSchedule, ",
                "1 with less than 4 nvidia.com/gpu free",
            ],
        ),
        (
            [({"memory": 3 * 2**29}, ())],
            [({"memory": 2**30}, ())],
            ["0 of 1 nodes", "for worker-0: ", "1 with less than 1.5Gi memory free"],
        ),
        (
            [({}, ()), ({}, ())],
            [({"pods": 1}, ())],
            ["0 of 1 nodes", "for worker-1: ", "1 with no room for another pod"],
        ),
    ],
)
def test_what_is_missing_is_told(asked: list[Asked], nodes: list[Given], facts: list[str]) -> None:
    assert_says(why_not(asked, nodes) or "", *facts)


amounts = st.dictionaries(st.sampled_from([GPU, "cpu"]), st.integers(0, 4))


pods = st.tuples(amounts, st.sampled_from([(), ON_GPUS, ANYWHERE]))
rooms = st.tuples(amounts, st.sampled_from([(), KEPT_FOR_GPUS, CLOSED]))


@given(st.lists(pods, max_size=4), st.lists(rooms, max_size=3))
def test_never_says_yes_where_no_placement_exists(asked: list[Asked], nodes: list[Given]) -> None:
    if why_not(asked, nodes) is not None:
        return
    placements = product(range(len(nodes)), repeat=len(asked))
    assert any(
        all(
            sum(item.get(name, 0) for (item, _), at in zip(asked, where, strict=True) if at == node)
            <= nodes[node][0].get(name, 0)
            for node in range(len(nodes))
            for name in (GPU, "cpu")
        )
        and all(
            untolerated(nodes[at][1], tolerations) is None
            for (_, tolerations), at in zip(asked, where, strict=True)
        )
        for where in placements
    )


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        pytest.param(
            {"initContainers": [("2", "Always"), ("1", "Always")]}, "4", id="sidecars run beside"
        ),
        pytest.param(
            {"initContainers": [("2", "Always"), ("3", None)]}, "5", id="and beside later inits"
        ),
        pytest.param({"initContainers": [("3", None), ("1", "Always")]}, "3", id="not before"),
        pytest.param({"initContainers": [("3", None), ("2", "Always")]}, "3", id="as much"),
        pytest.param({"requests": "7"}, "7", id="of the whole pod"),
        pytest.param({"requests": "7", "initContainers": [("9", None)]}, "7", id="whole first"),
        pytest.param({"limits": "7"}, "1", id="a limit is no request beside containers'"),
        pytest.param({"limits": "7", "containers": []}, "7", id="a limit alone is"),
        pytest.param({"requests": "7", "overhead": {"cpu": "1"}}, "8", id="overhead comes on top"),
    ],
)
def test_sidecars_and_the_whole_pod_count_as_for_the_scheduler(
    spec: dict[str, Any], asked: str
) -> None:
    """The numbers are those of PodRequests in k8s.io/component-helpers."""
    inits = [
        {"resources": {"requests": {"cpu": cpu}}, **({"restartPolicy": policy} if policy else {})}
        for cpu, policy in spec.pop("initContainers", ())
    ]
    whole = {name: {"cpu": spec.pop(name)} for name in ("requests", "limits") if name in spec}
    containers = [{"resources": {"requests": {"cpu": "1"}}}]
    found = requests(
        {"containers": containers, "initContainers": inits, "resources": whole, **spec}
    )

    assert found == {"cpu": Fraction(asked)}


def test_a_limit_is_a_request_and_init_containers_run_before_the_others() -> None:
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": "1"}}},
            {"resources": {"limits": {"nvidia.com/gpu": "2"}}},
        ],
        "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
        "overhead": {"memory": "1Mi"},
    }

    assert requests(spec) == {"cpu": 3, "nvidia.com/gpu": 2, "memory": 2**20}

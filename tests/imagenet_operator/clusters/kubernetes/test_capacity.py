from fractions import Fraction
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import capacity, health, objects
from imagenet_operator.reconcile.types import Taint
from support.api_requests import Refusal
from support.asynchronous import asynchronous, until
from support.operator_harness import cluster_of, job, node, running

Manifest = dict[str, Any]
OUT = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (node("n"), True),
        (node("n", ready="False"), False),
        (node("n", ready="Unknown"), False),
        (node("n", taints=[OUT]), False),
        (node("n", unschedulable=True), True),
        ({**node("n"), "status": {}}, False),
    ],
)
def test_which_nodes_can_be_reached(found: Manifest, expected: bool) -> None:
    found["metadata"].update(uid="u", resourceVersion="1")
    assert capacity.is_reachable(objects.project_node(found)) is expected


GPU_POOL = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
TOLERANT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def pod(place: str | None, *tolerations: Manifest, **requests: str) -> Manifest:
    containers = [{"name": "main", "resources": {"requests": requests}}]
    bound = {"nodeName": place} if place else {}
    return {"spec": {"containers": containers, "tolerations": list(tolerations), **bound}}


def test_free_is_what_bound_pods_leave() -> None:
    left = capacity.free_capacity(
        [node("a"), node("b")], [pod("a", cpu="500m"), pod("a", memory="1Gi")]
    )

    assert left["a"].free == {
        "cpu": Fraction("7.5"),
        "memory": Fraction(31 * 2**30),
        "pods": Fraction(8),
        "nvidia.com/gpu": Fraction(4),
    }
    assert left["b"].free["pods"] == 10


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_nodes_that_cannot_be_reached_have_no_room(status: str) -> None:
    assert capacity.free_capacity([node("n", ready=status), node("o", taints=[OUT])], []) == {}


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        pytest.param(node("n"), (), id="open"),
        pytest.param(
            node("n", taints=[GPU_POOL]), (Taint("nvidia.com/gpu", "NoSchedule"),), id="a pool"
        ),
        pytest.param(
            node("n", taints=[{"key": "slow", "effect": "PreferNoSchedule"}]), (), id="only prefers"
        ),
        pytest.param(
            node("n", unschedulable=True),
            (Taint("node.kubernetes.io/unschedulable", "NoSchedule"),),
            id="cordoned",
        ),
    ],
)
def test_a_room_has_the_taints_that_keep_pods_out(found: Manifest, kept: tuple[Taint, ...]) -> None:
    assert capacity.free_capacity([found], [])["n"].taints == kept


def test_pods_that_were_let_go_hold_the_room_they_will_take() -> None:
    left = capacity.free_capacity([node("a"), node("b")], [pod(None, cpu="6"), pod(None, cpu="6")])

    assert {name: room.free["cpu"] for name, room in left.items()} == {"a": 2, "b": 2}


def test_pods_that_were_let_go_hold_it_where_they_are_tolerated() -> None:
    pool = [node("a", taints=[GPU_POOL]), node("b")]

    left = capacity.free_capacity(pool, [pod(None, cpu="6"), pod(None, TOLERANT, cpu="5")])

    assert {name: room.free["cpu"] for name, room in left.items()} == {"a": 3, "b": 2}


@asynchronous
async def test_an_operator_that_cannot_list_the_nodes_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No pass is made without them, so to be well and ready would be a lie."""
    async with cluster_of(node("n1")) as server:
        server.refuse(Refusal(500, "InternalError", "etcd"), lambda asked: asked.kind == "Node")
        async with running(server) as harness:
            await server.add(job())
            await until(lambda: len(list(harness.operator.pending())) == 1)
            assert list(harness.operator.pending()) == ["nodes are not listed yet"]
            assert list(harness.operator.troubles()) == []
            with monkeypatch.context() as later:
                later.setattr(health, "LONGEST_SILENCE", -1.0)
                assert "the watch of nodes is dead" in list(harness.operator.troubles())
            assert server.writes() == []

            server.faults.clear()
            await harness.settle()
            assert len(harness.pods()) == 5
            assert list(harness.operator.pending()) == []


@asynchronous
async def test_an_operator_that_may_not_see_the_nodes_works_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster_of() as server:
        server.refuse(Refusal(403, "Forbidden"), lambda asked: asked.kind == "Node")
        async with running(server) as harness:
            await server.add(job())
            await server.until(lambda: len(harness.pods()) == 5)

            assert list(harness.operator.pending()) == []
            monkeypatch.setattr(health, "LONGEST_SILENCE", -1.0)
            assert "the watch of nodes is dead" not in list(harness.operator.troubles())

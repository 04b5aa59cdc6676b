from fractions import Fraction
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import nodes, trim
from support.operator_harness import node

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
    assert nodes.is_reachable(trim.node(found)) is expected


def pod(place: str | None, **requests: str) -> Manifest:
    containers = [{"name": "main", "resources": {"requests": requests}}]
    return {"spec": {"containers": containers, **({"nodeName": place} if place else {})}}


def test_free_is_what_bound_pods_leave() -> None:
    left = nodes.free([node("a"), node("b")], [pod("a", cpu="500m"), pod("a", memory="1Gi")])

    assert left["a"] == {
        "cpu": Fraction("7.5"),
        "memory": Fraction(31 * 2**30),
        "pods": Fraction(8),
        "nvidia.com/gpu": Fraction(4),
    }
    assert left["b"]["pods"] == 10


@pytest.mark.parametrize(
    "closed",
    [
        node("n", ready="False"),
        node("n", unschedulable=True),
        node("n", taints=[{"key": "dedicated", "effect": "NoSchedule"}]),
    ],
)
def test_nodes_that_take_no_pods_have_nothing_free(closed: Manifest) -> None:
    assert nodes.free([closed], []) == {}


def test_a_taint_that_only_prefers_leaves_a_node_open() -> None:
    soft = {"key": "slow", "effect": "PreferNoSchedule"}
    assert set(nodes.free([node("n", taints=[soft])], [])) == {"n"}


def test_pods_that_were_let_go_hold_the_room_they_will_take() -> None:
    left = nodes.free([node("a"), node("b")], [pod(None, cpu="6"), pod(None, cpu="6")])

    assert {name: amounts["cpu"] for name, amounts in left.items()} == {"a": 2, "b": 2}


def test_a_limit_is_a_request_and_init_containers_run_before_the_others() -> None:
    found = pod("a", cpu="1")
    found["spec"]["containers"].append({"resources": {"limits": {"nvidia.com/gpu": "2"}}})
    found["spec"]["initContainers"] = [{"resources": {"requests": {"cpu": "3"}}}]
    found["spec"]["overhead"] = {"memory": "1Mi"}

    assert nodes.requests(found) == {
        "cpu": 3,
        "nvidia.com/gpu": 2,
        "memory": 2**20,
        "pods": 1,
    }

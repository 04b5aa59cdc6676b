"""Nodes: which of them cannot be reached, and their free capacity.

Free capacity is the allocatable resources, less the requests of the bound pods. `capacity_lock`
uses it, together with the taints.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from imagenet_operator.api.base import Manifest
from imagenet_operator.api.quantities import parse
from imagenet_operator.reconcile.policies import gang
from imagenet_operator.reconcile.policies.gang import Rooms
from imagenet_operator.reconcile.types import Capacity, Room

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint for a node that an administrator has declared down."""

_PODS = "pods"
"""The resource of which every pod takes one."""

_NOTHING: Mapping[str, Mapping[str, Fraction]] = {}


def is_reachable(node: Manifest) -> bool:
    """Whether a node's pods can report: it is ready and not out of service."""
    if any(taint["key"] == OUT_OF_SERVICE for taint in node["spec"].get("taints") or ()):
        return False
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions") or ()
    )


Taken = Mapping[str, Mapping[str, Fraction]]
"""Node name → resource → the amount that pods take."""


def free(nodes: Iterable[Manifest], pods: Iterable[Manifest], taken: Taken = _NOTHING) -> Capacity:
    """Return the free capacity of each node that can be reached.

    Args:
        nodes: All nodes.
        pods: Pods that are bound and have not ended, and pods of released gangs that are not bound
            yet. The latter are placed on the first node with room.
        taken: The requests of all other pods.
    """
    rooms = Rooms(
        {
            node["metadata"]["name"]: Room(_allocatable(node), gang.taints_of(node["spec"]))
            for node in nodes
            if is_reachable(node)
        }
    )
    for name, amounts in taken.items():
        rooms.put_on(name, amounts)
    unbound = []
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name is None:
            unbound.append(pod)
        else:
            rooms.put_on(name, gang.requests(pod["spec"]))
    for pod in unbound:
        rooms.put(gang.requests(pod["spec"]), gang.tolerations_of(pod["spec"]))
    return rooms.left()


def add(taken: dict[str, dict[str, Fraction]], pod: Manifest) -> None:
    """Add the requests of a bound pod to its node."""
    amounts = taken.setdefault(pod["spec"]["nodeName"], {})
    for resource, amount in {_PODS: Fraction(1), **gang.requests(pod["spec"])}.items():
        amounts[resource] = amounts.get(resource, Fraction(0)) + amount


def _allocatable(node: Manifest) -> dict[str, Fraction]:
    amounts: Mapping[str, str] = node["status"].get("allocatable") or {}
    return {name: parse(amount) for name, amount in amounts.items()}

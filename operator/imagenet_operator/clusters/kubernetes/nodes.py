"""What the nodes tell: which of them cannot be reached, and what they have left for which pods.

Left is what a node could allocate, less what the pods that are bound to it ask for; with it go the
taints that keep pods out. `capacity_lock` asks for it.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from imagenet_operator.api.base import Manifest
from imagenet_operator.api.quantities import parse
from imagenet_operator.reconcile.policies import taints
from imagenet_operator.reconcile.policies.capacity import Rooms
from imagenet_operator.reconcile.types import Capacity, Room

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which a person says that a node is down for good."""

_PODS = "pods"
"""The resource that every pod takes one of."""

_NOTHING: Mapping[str, Mapping[str, Fraction]] = {}


def is_reachable(node: Manifest) -> bool:
    """Whether anything will be heard from a node's pods: it is ready and not out of service."""
    if any(taint["key"] == OUT_OF_SERVICE for taint in node["spec"].get("taints") or ()):
        return False
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions") or ()
    )


Taken = Mapping[str, Mapping[str, Fraction]]
"""Node name → resource → how much of it pods take."""


def free(nodes: Iterable[Manifest], pods: Iterable[Manifest], taken: Taken = _NOTHING) -> Capacity:
    """Return what each node that can be reached has left.

    Args:
        nodes: All nodes.
        pods: Pods that are bound to a node and have not ended, and pods of gangs that were let go
            but are not bound yet; the latter are put on the first node with room for them.
        taken: What all other pods take of them.
    """
    rooms = Rooms(
        {
            node["metadata"]["name"]: Room(_allocatable(node), taints.of_node(node["spec"]))
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
            rooms.put_on(name, requests(pod))
    for pod in unbound:
        rooms.put(requests(pod), taints.of_pod(pod["spec"]))
    return rooms.left()


def add(taken: dict[str, dict[str, Fraction]], pod: Manifest) -> None:
    """Add what a pod that is bound to a node takes from it."""
    amounts = taken.setdefault(pod["spec"]["nodeName"], {})
    for resource, amount in {_PODS: Fraction(1), **requests(pod)}.items():
        amounts[resource] = amounts.get(resource, Fraction(0)) + amount


def requests(pod: Manifest) -> dict[str, Fraction]:
    """Return what a pod takes from a node.

    An init container runs before the others, so it counts only where it asks for more than they
    do together.
    """
    spec = pod["spec"]
    total: dict[str, Fraction] = {}
    for container in spec["containers"]:
        for resource, amount in _asked(container).items():
            total[resource] = total.get(resource, Fraction(0)) + amount
    for container in spec.get("initContainers") or ():
        for resource, amount in _asked(container).items():
            total[resource] = max(total.get(resource, Fraction(0)), amount)
    for resource, amount in (spec.get("overhead") or {}).items():
        total[resource] = total.get(resource, Fraction(0)) + parse(amount)
    return total


def _asked(container: Manifest) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse(amount) for name, amount in asked.items()}


def _allocatable(node: Manifest) -> dict[str, Fraction]:
    amounts: Mapping[str, str] = node["status"].get("allocatable") or {}
    return {name: parse(amount) for name, amount in amounts.items()}

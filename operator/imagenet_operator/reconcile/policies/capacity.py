"""Capacity: an estimate whether all pods of a gang fit on the nodes at once.

First fit, largest first, by requests and taints. Affinities and node selectors are ignored, so the
estimate may allow what the scheduler does not place: the gang's timeout covers that, from the
moment that the gates are lifted. It may also deny what a better packing allows. No timeout covers
that, and the gang waits for more room. So a pod that may use several nodes takes one that few
others may use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

from imagenet_operator.api.quantities import parse
from imagenet_operator.reconcile.policies import taints
from imagenet_operator.reconcile.policies.taints import untolerated
from imagenet_operator.reconcile.types import Capacity, Manifest, Room, Toleration

Amounts = Mapping[str, Fraction]

_PODS: Final = "pods"
"""The resource of which every pod takes one, if the node reports it."""

_GIBIBYTE: Final = 2**30


class Demand(Protocol):
    """A pod that needs room, such as a `MemberPod`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def requests(self) -> Amounts:
        """Its resource requests."""

    @property
    def tolerations(self) -> Sequence[Toleration]:
        """The taints that it tolerates."""


@dataclass(frozen=True)
class PlannedPod:
    """A pod that does not exist yet; a `Demand`."""

    name: str
    requests: Amounts
    tolerations: tuple[Toleration, ...]


def planned(pod: Manifest) -> PlannedPod:
    """Return the demand of a pod's manifest."""
    spec = pod["spec"]
    return PlannedPod(pod["metadata"]["name"], requests(spec), taints.of_pod(spec))


def requests(spec: Manifest) -> dict[str, Fraction]:
    """Return the effective requests of a pod, as the scheduler counts them.

    A limit implies a request. An init container runs before the containers, so it counts only if
    it requests more than their sum. A native sidecar runs beside them, and beside the init
    containers after it. Requests of the whole pod take the place of those of its containers.

    Args:
        spec: The pod's.
    """
    total: dict[str, Fraction] = {}
    for container in spec["containers"]:
        _add(total, _asked(container))
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        beside = dict(sidecars)
        _add(beside, _asked(container))
        if container.get("restartPolicy") == "Always":
            sidecars = beside
        for resource, amount in beside.items():
            peak[resource] = max(peak.get(resource, Fraction(0)), amount)
    _add(total, sidecars)
    for resource, amount in peak.items():
        total[resource] = max(total.get(resource, Fraction(0)), amount)
    whole = spec.get("resources") or {}
    # The API server derives a request from the limit only if no container has one.
    total = {**_amounts(whole.get("limits")), **total, **_amounts(whole.get("requests"))}
    _add(total, _amounts(spec.get("overhead")))
    return total


def _asked(container: Manifest) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(resources: Mapping[str, str] | None) -> dict[str, Fraction]:
    return {name: parse(amount) for name, amount in (resources or {}).items()}


def _add(total: dict[str, Fraction], amounts: Amounts) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, Fraction(0)) + amount


class Rooms:
    """The nodes while pods are placed on them, one after the other.

    Args:
        free: Their capacity before.
    """

    def __init__(self, free: Capacity) -> None:
        self._left = {node: dict(room.free) for node, room in free.items()}
        self._taints = {node: room.taints for node, room in free.items()}
        # Nodes that few pods may use come first, so that the open ones remain for others.
        self._order = sorted(self._left, key=lambda node: (-len(self._taints[node]), node))

    def put(self, requests: Amounts, tolerations: Sequence[Toleration]) -> bool:
        """Place a pod on the first node with room for it; return whether there is one."""
        for node in self._order:
            tolerated = untolerated(self._taints[node], tolerations) is None
            if tolerated and self._lacking(node, requests) is None:
                self.put_on(node, requests)
                return True
        return False

    def put_on(self, node: str, requests: Amounts) -> None:
        """Place a pod on a node, even beyond its capacity; an unknown node is ignored."""
        left = self._left.get(node, {})
        for resource, amount in {_PODS: Fraction(1), **requests}.items():
            if resource in left:
                left[resource] -= amount

    def left(self) -> Capacity:
        """Return the free capacity of the nodes."""
        return {node: Room(amounts, self._taints[node]) for node, amounts in self._left.items()}

    def unschedulable(self, name: str, requests: Amounts, tolerations: Sequence[Toleration]) -> str:
        """Return why no node has room for a pod: each reason with its number of nodes."""
        if not self._order:
            return f"there is no node for {name}"
        reasons = Counter(self._reason(node, requests, tolerations) for node in self._order)
        listed = ", ".join(f"{count} with {reason}" for reason, count in reasons.most_common())
        return f"0 of {len(self._order)} nodes have room for {name}: {listed}"

    def _reason(self, node: str, requests: Amounts, tolerations: Sequence[Toleration]) -> str:
        if (taint := untolerated(self._taints[node], tolerations)) is not None:
            return f"the taint {taint}"
        lacking = self._lacking(node, requests)
        if lacking is None or lacking == _PODS:
            return "no room for another pod"
        return f"less than {_amount(requests[lacking])} {lacking} free"

    def _lacking(self, node: str, requests: Amounts) -> str | None:
        """The first resource of which a node has too little left."""
        left = self._left[node]
        if left.get(_PODS, Fraction(1)) < 1:
            return _PODS
        for resource, amount in requests.items():
            if left.get(resource, Fraction(0)) < amount:
                return resource
        return None


def shortage(members: Sequence[Demand], free: Capacity) -> str | None:
    """Return the first member that has no room, and why; None if all fit at once.

    Args:
        members: The pods to place.
        free: Free capacity of the nodes.
    """
    rooms = Rooms(free)
    scarce = _by_scarcity(members, free)
    for member in sorted(members, key=lambda item: _size(item, scarce), reverse=True):
        if not rooms.put(member.requests, member.tolerations):
            asked = {name: member.requests[name] for name in scarce if name in member.requests}
            return rooms.unschedulable(member.name, asked, member.tolerations)
    return None


def _by_scarcity(members: Sequence[Demand], free: Capacity) -> list[str]:
    """The requested resources, the scarcest for the demand first."""
    demand: dict[str, Fraction] = {}
    for member in members:
        for resource, amount in member.requests.items():
            demand[resource] = demand.get(resource, Fraction(0)) + amount
    total = {
        resource: sum((room.free.get(resource, Fraction(0)) for room in free.values()), Fraction(0))
        for resource in demand
    }
    return sorted(
        (resource for resource in demand if demand[resource] > 0),
        key=lambda resource: (total[resource] / demand[resource], resource),
    )


def _size(member: Demand, resources: Sequence[str]) -> tuple[Fraction, ...]:
    return tuple(member.requests.get(resource, Fraction(0)) for resource in resources)


def _amount(amount: Fraction) -> str:
    """An amount for people; only bytes reach a gibibyte."""
    if amount >= _GIBIBYTE:
        return f"{float(amount / _GIBIBYTE):g}Gi"
    return f"{float(amount):g}"

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
from fractions import Fraction
from typing import Final

from imagenet_operator.reconcile.policies.taints import untolerated
from imagenet_operator.reconcile.types import Capacity, MemberPod, Room, Toleration

Amounts = Mapping[str, Fraction]

_PODS: Final = "pods"
"""The resource of which every pod takes one, if the node reports it."""

_GIBIBYTE: Final = 2**30


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


def shortage(members: Sequence[MemberPod], free: Capacity) -> str | None:
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


def _by_scarcity(members: Sequence[MemberPod], free: Capacity) -> list[str]:
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


def _size(member: MemberPod, resources: Sequence[str]) -> tuple[Fraction, ...]:
    return tuple(member.requests.get(resource, Fraction(0)) for resource in resources)


def _amount(amount: Fraction) -> str:
    """An amount for people; only bytes reach a gibibyte."""
    if amount >= _GIBIBYTE:
        return f"{float(amount / _GIBIBYTE):g}Gi"
    return f"{float(amount):g}"

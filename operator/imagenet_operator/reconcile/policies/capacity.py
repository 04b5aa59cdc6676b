"""Whether all pods of a gang fit on the nodes at once, as far as can be told from outside.

First fit, largest first, with requests and taints: an estimate. It knows nothing of affinities and
node selectors, so it may say yes to what the scheduler does not place; that the gang's timeout
covers, which runs from the moment that the gates are lifted. It may also say no where a cleverer
packing exists; no timeout covers that, and the gang waits until there is more room. So what has a
choice of nodes is put where the fewest others may go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from imagenet_operator.reconcile.policies.taints import untolerated
from imagenet_operator.reconcile.types import Capacity, Member, Room, Toleration

Amounts = Mapping[str, Fraction]

_PODS: Final = "pods"
"""The resource that every pod takes one of, where a node says how many it has."""

_GIBIBYTE: Final = 2**30


class Rooms:
    """The nodes while pods are put on them, one after the other.

    Args:
        free: What they have left before.
    """

    def __init__(self, free: Capacity) -> None:
        self._left = {node: dict(room.free) for node, room in free.items()}
        self._taints = {node: room.taints for node, room in free.items()}
        # What few may use comes first, so that the open nodes are left to the others.
        self._order = sorted(self._left, key=lambda node: (-len(self._taints[node]), node))

    def put(self, requests: Amounts, tolerations: Sequence[Toleration]) -> bool:
        """Put a pod on the first node that has room for it; return whether there is one."""
        for node in self._order:
            tolerated = untolerated(self._taints[node], tolerations) is None
            if tolerated and self._lacking(node, requests) is None:
                self.put_on(node, requests)
                return True
        return False

    def put_on(self, node: str, requests: Amounts) -> None:
        """Put a pod on a node, whatever it has left; on one that is not known, nothing happens."""
        left = self._left.get(node, {})
        for resource, amount in {_PODS: Fraction(1), **requests}.items():
            if resource in left:
                left[resource] -= amount

    def left(self) -> Capacity:
        """Return what the nodes have left by now."""
        return {node: Room(amounts, self._taints[node]) for node, amounts in self._left.items()}

    def refusal(self, name: str, requests: Amounts, tolerations: Sequence[Toleration]) -> str:
        """Return why there is no node for a pod: how many of them for which reason."""
        if not self._order:
            return f"there is no node for {name}"
        reasons = Counter(self._reason(node, requests, tolerations) for node in self._order)
        told = ", ".join(f"{count} with {reason}" for reason, count in reasons.most_common())
        return f"0 of {len(self._order)} nodes have room for {name}: {told}"

    def _reason(self, node: str, requests: Amounts, tolerations: Sequence[Toleration]) -> str:
        if (taint := untolerated(self._taints[node], tolerations)) is not None:
            return f"the taint {taint}"
        lacking = self._lacking(node, requests)
        if lacking is None or lacking == _PODS:
            return "no place for another pod"
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


def shortage(members: Sequence[Member], free: Capacity) -> str | None:
    """Return for which member there is no room, and why; None if all of them fit at once.

    Args:
        members: The pods to place.
        free: What the nodes have left.
    """
    rooms = Rooms(free)
    scarce = _by_scarcity(members, free)
    for member in sorted(members, key=lambda item: _size(item, scarce), reverse=True):
        if not rooms.put(member.requests, member.tolerations):
            asked = {name: member.requests[name] for name in scarce if name in member.requests}
            return rooms.refusal(member.name, asked, member.tolerations)
    return None


def _by_scarcity(members: Sequence[Member], free: Capacity) -> list[str]:
    """The resources that are asked for, the one with the least left for the demand first."""
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


def _size(member: Member, resources: Sequence[str]) -> tuple[Fraction, ...]:
    return tuple(member.requests.get(resource, Fraction(0)) for resource in resources)


def _amount(amount: Fraction) -> str:
    """An amount as people write it; only bytes are ever so many."""
    if amount >= _GIBIBYTE:
        return f"{float(amount / _GIBIBYTE):g}Gi"
    return f"{float(amount):g}"

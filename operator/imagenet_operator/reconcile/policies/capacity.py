"""Whether all pods of a gang fit on the nodes at once, as far as can be told from outside.

First fit, largest first: an estimate, which may say no where a cleverer packing exists, and knows
nothing of taints or affinities. That is enough for lifting the scheduling gates of a gang: the
scheduler has the last word, and the gang's timeout covers what the estimate got wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from imagenet_operator.reconcile.types import Capacity, Member

_POD = {"pods": Fraction(1)}
"""Every pod also takes one of its node's places for pods, where a node says how many it has."""


def fits(members: Sequence[Member], free: Capacity) -> bool:
    """Whether every member finds a node with enough left of everything that it asks for.

    Args:
        members: The pods to place.
        free: Node → resource → amount left.
    """
    left = {node: dict(amounts) for node, amounts in free.items()}
    scarce = _by_scarcity(members, free)
    for member in sorted(members, key=lambda item: _size(item, scarce), reverse=True):
        node = next((node for node in sorted(left) if _has_room(left[node], member)), None)
        if node is None:
            return False
        for resource, amount in {**_POD, **member.requests}.items():
            if resource in left[node]:
                left[node][resource] -= amount
    return True


def _has_room(left: dict[str, Fraction], member: Member) -> bool:
    return left.get("pods", Fraction(1)) >= 1 and all(
        left.get(resource, Fraction(0)) >= amount for resource, amount in member.requests.items()
    )


def _by_scarcity(members: Sequence[Member], free: Capacity) -> list[str]:
    """The resources that are asked for, the one with the least left for the demand first."""
    demand: dict[str, Fraction] = {}
    for member in members:
        for resource, amount in member.requests.items():
            demand[resource] = demand.get(resource, Fraction(0)) + amount
    total = {
        resource: sum((node.get(resource, Fraction(0)) for node in free.values()), Fraction(0))
        for resource in demand
    }
    return sorted(
        (resource for resource in demand if demand[resource] > 0),
        key=lambda resource: (total[resource] / demand[resource], resource),
    )


def _size(member: Member, resources: Sequence[str]) -> tuple[Fraction, ...]:
    return tuple(member.requests.get(resource, Fraction(0)) for resource in resources)

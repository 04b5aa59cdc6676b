"""Taints: which nodes are closed to a pod without a toleration.

The rule is the scheduler's. A taint with PreferNoSchedule closes no node. A cordoned node counts as
tainted, as for the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from imagenet_operator.reconcile.types import Manifest, Taint, Toleration

_KEEPS_PODS_OUT: Final = frozenset({"NoSchedule", "NoExecute"})

_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


def of_node(spec: Manifest) -> tuple[Taint, ...]:
    """Return the taints that keep pods off a node.

    Args:
        spec: The node's.
    """
    found = [
        Taint(taint["key"], taint["effect"], taint.get("value") or "")
        for taint in spec.get("taints") or ()
        if taint["effect"] in _KEEPS_PODS_OUT
    ]
    if spec.get("unschedulable") and _UNSCHEDULABLE not in found:
        found.append(_UNSCHEDULABLE)
    return tuple(found)


def of_pod(spec: Manifest) -> tuple[Toleration, ...]:
    """Return what a pod tolerates.

    Args:
        spec: The pod's.
    """
    return tuple(
        Toleration(
            key=item.get("key") or "",
            operator=item.get("operator") or "Equal",
            value=item.get("value") or "",
            effect=item.get("effect") or "",
        )
        for item in spec.get("tolerations") or ()
    )


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps a pod out; None if it tolerates all of them."""
    found = tuple(tolerations)
    return next(
        (taint for taint in taints if not any(_tolerates(item, taint) for item in found)), None
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    # Newer operators compare numbers. They count as tolerating: a gang whose gates are lifted too
    # early is withdrawn by its timeout; one whose gates stay would never start.
    return toleration.operator != "Equal" or toleration.value == taint.value

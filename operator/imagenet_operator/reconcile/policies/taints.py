"""Taints: which nodes are closed to a pod that does not tolerate what they say.

The rule is the scheduler's. A taint that only prefers other nodes keeps nobody out, and a node that
somebody closed by hand (`kubectl cordon`) counts as tainted, since the scheduler takes it so.
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
    borne = tuple(tolerations)
    return next((taint for taint in taints if not any(_bears(item, taint) for item in borne)), None)


def _bears(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    # Operators that came later compare numbers. They count as tolerating: a gang that is let go
    # too early comes back by its timeout, and one that is not let go would wait for ever.
    return toleration.operator != "Equal" or toleration.value == taint.value

"""The phase: the conditions in one word, for `kubectl get` and for people."""

from __future__ import annotations

from imagenet_operator.api.status import ConditionType, Phase, Status
from imagenet_operator.reconcile.policies import conditions

_BY_CONDITION: tuple[tuple[ConditionType, Phase], ...] = (
    ("Failed", "Failed"),
    ("Succeeded", "Succeeded"),
    ("Suspended", "Suspended"),
    ("Running", "Running"),
    ("Restarting", "Restarting"),
    ("DatasetReady", "Starting"),
)
"""The first condition that holds says the phase."""


def of(status: Status) -> Phase:
    """Return the phase that the conditions and the preparation's clock amount to."""
    for kind, phase in _BY_CONDITION:
        if conditions.holds(status.conditions, kind):
            return phase
    return "Created" if status.preparation is None else "Preparing"

"""Conditions in Kubernetes' form, and the phase that sums them up.

A condition is set by type. Its transition time changes only with its status.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from imagenet_operator.api.status import Condition, ConditionType, Phase, Status
from imagenet_operator.reconcile.waiting_objects import QUEUED

MESSAGE_MAXIMUM = 4096
"""Characters of a message that are kept: enough for a termination message."""

_NUMBER = re.compile("[0-9]+")

_PHASES: tuple[tuple[ConditionType, Phase], ...] = (
    ("Failed", "Failed"),
    ("Succeeded", "Succeeded"),
    ("Suspended", "Suspended"),
    ("Running", "Running"),
    ("Restarting", "Restarting"),
    ("DatasetReady", "Starting"),
)
"""The first condition that is True decides the phase, unless a queue holds the job back."""

_GOES_ON: frozenset[Phase] = frozenset({"Restarting", "Starting"})


def find(conditions: Sequence[Condition], kind: ConditionType) -> Condition | None:
    """Return the condition of a type, if it was ever set."""
    return next((condition for condition in conditions if condition.type == kind), None)


def holds(conditions: Sequence[Condition], kind: ConditionType) -> bool:
    """Return whether the condition of a type is set and True."""
    found = find(conditions, kind)
    return found is not None and found.status == "True"


def equal_without_numbers(message: str, former: str) -> bool:
    """Whether two messages are equal but for numbers; such a change is not worth a write."""
    return _NUMBER.sub("", message) == _NUMBER.sub("", former)


def phase(status: Status) -> Phase:
    """Return the phase that follows from the conditions and the preparation's clock."""
    found = next((name for kind, name in _PHASES if holds(status.conditions, kind)), None)
    if found is not None and found not in _GOES_ON:
        return found
    if is_queued(status):
        return "Queued"
    return found or ("Created" if status.preparation is None else "Preparing")


def is_queued(status: Status) -> bool:
    """Whether a queue holds back the next step of a job: its preparation, or its attempt."""
    kind: ConditionType = "Running" if holds(status.conditions, "DatasetReady") else "DatasetReady"
    condition = find(status.conditions, kind)
    return condition is not None and (condition.status, condition.reason) == ("False", QUEUED)


def put(
    conditions: Sequence[Condition],
    kind: ConditionType,
    value: bool,
    reason: str,
    message: str,
    *,
    now: datetime,
    generation: int,
) -> tuple[Condition, ...]:
    """Return the conditions with one of them set.

    Args:
        conditions: At most one of each type; their order stays, a new one comes last.
        kind: Which to set.
        value: Whether its status is True.
        reason: CamelCase, for programs.
        message: For people; cut at `MESSAGE_MAXIMUM`.
        now: The transition time, if the status changes.
        generation: The job's generation that the condition describes.
    """
    former = find(conditions, kind)
    changed = Condition(
        type=kind,
        status="True" if value else "False",
        reason=reason,
        message=_cut(message),
        last_transition_time=now,
        observed_generation=generation,
    )
    if former is not None and former.status == changed.status:
        if (former.reason, former.message) == (changed.reason, changed.message):
            return tuple(conditions)
        since = former.last_transition_time
        changed = changed.model_copy(update={"last_transition_time": since})
    if former is None:
        return (*conditions, changed)
    return tuple(changed if item.type == kind else item for item in conditions)


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_MAXIMUM else message[: MESSAGE_MAXIMUM - 1] + "…"

"""Conditions in Kubernetes' form: set by type; the time moves only when the status does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from imagenet_operator.api.status import Condition, ConditionType

MESSAGE_MAXIMUM = 4096
"""Characters of a message that are kept: enough for a program's last words."""


def find(conditions: Sequence[Condition], kind: ConditionType) -> Condition | None:
    """Return the condition of a type, if it was ever set."""
    return next((condition for condition in conditions if condition.type == kind), None)


def holds(conditions: Sequence[Condition], kind: ConditionType) -> bool:
    """Return whether the condition of a type is set and True."""
    found = find(conditions, kind)
    return found is not None and found.status == "True"


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
        value: Whether it holds.
        reason: Why, in one CamelCase word.
        message: Why, for people; cut at `MESSAGE_MAXIMUM`.
        now: The transition's time, if there is one.
        generation: The job's generation that this is said of.
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

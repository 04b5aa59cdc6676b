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

_AT_REST: tuple[tuple[ConditionType, Phase], ...] = (
    ("Failed", "Failed"),
    ("Succeeded", "Succeeded"),
    ("Suspended", "Suspended"),
)
_AT_WORK: tuple[tuple[ConditionType, Phase], ...] = (
    ("Running", "Running"),
    ("Restarting", "Restarting"),
    ("DatasetReady", "Starting"),
)
"""The first condition that is True decides the phase, of a job at rest before others. A queue may
hold back a job that does not run."""


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


def phase(status: Status, suspends: bool) -> Phase:
    """Return the phase that follows from the conditions and the preparation's clock.

    Args:
        status: With its conditions.
        suspends: Whether the job is to be suspended; it is Suspending while it has pods.
    """
    for kind, found in _AT_REST:
        if holds(status.conditions, kind):
            return found
    if suspends:
        return "Suspending"
    if is_queued(status):
        return "Queued"
    for kind, found in _AT_WORK:
        if holds(status.conditions, kind):
            return found
    return "Created" if status.preparation is None else "Preparing"


def is_queued(status: Status) -> bool:
    """Whether a queue holds back the next step of a job: its preparation, or its attempt."""
    condition = find(status.conditions, awaited(status))
    return condition is not None and (condition.status, condition.reason) == ("False", QUEUED)


def awaited(status: Status) -> ConditionType:
    """Return the type of the condition that says what an unfinished job waits for."""
    return "Running" if holds(status.conditions, "DatasetReady") else "DatasetReady"


def reason(status: Status) -> str | None:
    """Return the reason of the condition that explains the phase; None before the first one."""
    kinds: list[ConditionType] = [kind for kind, _ in _AT_REST if holds(status.conditions, kind)]
    for kind in kinds or (awaited(status), "DatasetReady", "Created"):
        if (found := find(status.conditions, kind)) is not None:
            return found.reason
    return None


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

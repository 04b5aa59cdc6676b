"""Version skew: jobs that an operator of another release has written, or an older CRD has pruned.

A newer operator may write a field of the spec that this version does not accept; a spec that is too
large for the operator is unsupported, too. The pods that exist go on: the newer operator has built
them. Nothing is created from a spec of which a part is unknown, and a job that has not started
waits. Suspension, the end of an attempt and clean-up need only the fields that can be read.

An API server prunes the fields that its CRD does not define. So with an older CRD, a status that
is written loses fields. They are rebuilt from the pods and from the rest of the status, because
their loss must not end a running attempt, start a finished job again, or let a job restart without
limit. Counters are estimated: every attempt but the first counts as a restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, get_args

from imagenet_operator.reconcile.policies import job_status, waiting
from imagenet_operator.reconcile.types import TERMINATING, Attempt, MemberPod
from imagenet_spec.errors import Problem
from imagenet_spec.names import MemberRole
from imagenet_spec.resource.status import (
    AttemptOutcome,
    Condition,
    ConditionType,
    MemberStatus,
    Status,
    TrainingStatus,
)

UNSUPPORTED: Final = "UnsupportedSpec"
"""The reason of Created, and of the condition of what does not start."""

_BEFORE_AN_ATTEMPT = frozenset(
    {"NameConflict", UNSUPPORTED, *waiting.REASONS} - {waiting.CAUSES[TERMINATING].reason}
)
"""Reasons that Running may have without any attempt."""

_UNRECORDED = 1000
"""Attempts of which a status may have lost the record."""

_ENDS: tuple[ConditionType, ...] = ("Succeeded", "Failed")


def why_unsupported(problems: Sequence[Problem]) -> tuple[str, str]:
    """Return the reason and the message of a condition."""
    if all(problem.stage == "operator" for problem in problems):
        return UNSUPPORTED, f"no pods are started: {'; '.join(map(str, problems))}"
    fields = "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
    return UNSUPPORTED, (
        "a newer operator wrote the spec; upgrade this operator, which starts no pods until then: "
        f"{fields}"
    )


def was_unsupported(status: Status) -> bool:
    """Whether the status still names fields that are accepted by now."""
    created = job_status.find(status.conditions, "Created")
    return created is not None and (created.status, created.reason) == ("True", UNSUPPORTED)


def was_started(status: Status) -> bool:
    """Whether an operator has accepted the job."""
    return status.start_time is not None or job_status.holds(status.conditions, "Created")


def last_attempt(status: Status) -> int:
    """Return the highest number that an attempt of the job can have.

    An attempt may exist that is not recorded yet: the one after the recorded one.
    """
    training = status.training
    if training is not None and training.members:
        return training.attempt + 1
    if training is None and not _had_an_attempt(status.conditions):
        return 0
    # Nothing that is recorded says how many attempts there were.
    recorded = 0 if training is None else training.attempt
    return max(recorded, _latest_named(status.conditions)) + _UNRECORDED


def rebuilt(status: Status, attempts: Mapping[int, Attempt], now: datetime) -> Status:
    """Return a status with the parts that it has lost."""
    created = job_status.find(status.conditions, "Created")
    if status.start_time is None and created is not None and created.status == "True":
        status = status.model_copy(update={"start_time": created.last_transition_time})
    if changes := _end(status, now):
        status = status.model_copy(update=changes)
    if status.completion_time is None:
        status = _with_training(status, attempts, now)
    training = status.training
    was_restarted = job_status.find(status.conditions, "Restarting") is not None
    if was_restarted and training is not None and not status.restarts and not status.disruptions:
        # Both counters are lost.
        restarts = training.attempt + (training.outcome is not None)
        status = status.model_copy(update={"restarts": restarts})
    return status


def existing(pods: Iterable[MemberPod]) -> tuple[MemberStatus, ...]:
    """Return the record of an attempt whose plan is not known: the pods that exist."""
    return tuple(
        MemberStatus.model_validate({"name": pod.name, "role": pod.role})
        for pod in pods
        if pod.role in get_args(MemberRole)
    )


def _end(status: Status, now: datetime) -> dict[str, object]:
    """Return the changes that give a finished job its condition and its time."""
    ended = [item for item in status.conditions if item.type in _ENDS and item.status == "True"]
    if ended:
        return {} if status.completion_time else {"completion_time": ended[0].last_transition_time}
    if status.completion_time is None:
        return {}
    kind: ConditionType = "Succeeded" if status.phase == "Succeeded" else "Failed"
    found = job_status.put(
        status.conditions,
        kind,
        True,
        "Rebuilt",
        "the job has a completion time",
        now=status.completion_time,
        generation=status.observed_generation or 0,
    )
    return {"conditions": found}


def _with_training(status: Status, attempts: Mapping[int, Attempt], now: datetime) -> Status:
    former = status.training
    if former is None:
        if not _had_an_attempt(status.conditions):
            return status
    elif former.outcome is not None or (former.members and not _lacks_groups(former)):
        return status
    base = former or TrainingStatus(attempt=_latest_named(status.conditions))
    number = base.attempt
    if not base.members:
        number = max((key for key, item in attempts.items() if item.members), default=number)
    pods = attempts[number].members if number in attempts else ()
    members = {item.name: item for item in (*existing(pods), *base.members)}
    changes = {
        "attempt": number,
        "members": tuple(members.values()),
        "start_time": base.start_time or now,
        "outcome": _outcome(status.conditions, number, bool(pods), now),
    }
    return status.model_copy(update={"training": base.model_copy(update=changes)})


def _lacks_groups(training: TrainingStatus) -> bool:
    """Whether only the members of a large attempt that are stored one by one are left."""
    counts = training.replica_statuses.values()
    return len(training.members) < sum(
        found.active + found.succeeded + found.failed for found in counts
    )


def _had_an_attempt(conditions: Sequence[Condition]) -> bool:
    running = job_status.find(conditions, "Running")
    has_begun = running is not None and running.reason not in _BEFORE_AN_ATTEMPT
    return has_begun or job_status.find(conditions, "Restarting") is not None


def _latest_named(conditions: Iterable[Condition]) -> int:
    """Return the highest number of an attempt in the messages of conditions; 0 if none has any."""
    numbers = (
        int(text) for item in conditions for text in re.findall(r"attempt (\d{1,9})", item.message)
    )
    return max(numbers, default=0)


def _outcome(
    conditions: Sequence[Condition], number: int, has_pods: bool, now: datetime
) -> AttemptOutcome | None:
    """Return the end of an attempt, if the job restarts because of it or it has no pods."""
    restarting = job_status.find(conditions, "Restarting")
    if (
        restarting is not None
        and restarting.status == "True"
        and restarting.message.startswith(f"attempt {number}: ")
    ):
        return AttemptOutcome(
            time=restarting.last_transition_time,
            reason=restarting.reason,
            message=restarting.message.partition(": ")[2],
        )
    if has_pods:
        return None
    return AttemptOutcome(time=now, reason="RecordLost", message="the attempt has no pods")

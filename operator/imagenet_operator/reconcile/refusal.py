"""Refusal: a job that cannot be worked on fails, with the reason, and is not tried again.

`decide` refuses what it finds out by itself. The rest comes from outside: a spec that no version of
this operator can read, or an object that the API server will never store.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.problems import Problem
from imagenet_operator.api.status import Status
from imagenet_operator.reconcile.draft import Draft
from imagenet_operator.reconcile.policies import conditions, phase
from imagenet_operator.reconcile.types import Decision, Observed, Settings


def reason_of(problems: Sequence[Problem]) -> str:
    """Return the reason of Failed for a job with these problems; one at least."""
    return "InvalidTemplate" if all(item.is_of_template for item in problems) else "InvalidSpec"


def refuse(
    job: ImageNetJob, reason: str, message: str, now: datetime, settings: Settings
) -> Decision:
    """Return the decision that fails a job.

    Args:
        job: With the status that is recorded.
        reason: Why, in one CamelCase word.
        message: Why, for people.
        now: The time.
        settings: The operator's.
    """
    draft = Draft(job, Observed(), None, now, settings)
    draft.fail(reason, message)
    return draft.decision()


def refused(status: Status, generation: int, reason: str, message: str, now: datetime) -> Status:
    """Return the status of a job whose spec cannot be read at all."""
    moment = now.astimezone(UTC).replace(microsecond=0)
    failed = conditions.put(
        status.conditions, "Failed", True, reason, message, now=moment, generation=generation
    )
    ended = status.model_copy(
        update={
            "conditions": failed,
            "completion_time": moment,
            "observed_generation": generation,
        }
    )
    return ended.model_copy(update={"phase": phase.of(ended)})

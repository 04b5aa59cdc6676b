"""Rejection: a job that cannot be reconciled fails with a reason, and is not retried.

`decide` rejects the jobs whose manifests cannot be built. The clusters reject a spec that this
version cannot read, and an object that the API server will never store.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from imagenet_operator.api import ImageNetJob
from imagenet_operator.errors import Problem
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.settings import ReconcileSettings
from imagenet_operator.reconcile.types import Decision, Observed


def reason_of(problems: Sequence[Problem]) -> str:
    """Return the reason of Failed for a job with these problems; one at least."""
    return "InvalidTemplate" if all(item.is_of_template for item in problems) else "InvalidSpec"


def reject(
    job: ImageNetJob, reason: str, message: str, now: datetime, settings: ReconcileSettings
) -> Decision:
    """Return the decision that fails a job.

    Args:
        job: With its recorded status.
        reason: CamelCase, for programs.
        message: For people.
        now: With a time zone.
        settings: The operator's.
    """
    context = ReconcileContext(job, Observed(), None, now, settings)
    context.fail(reason, message)
    return context.decision()

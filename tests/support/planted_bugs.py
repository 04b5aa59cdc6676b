"""Bugs that tests plant into the decisions, to show that an invariant is violated by each.

A bug is planted by a patch of one function.
"""

from __future__ import annotations

import pytest

from imagenet_operator.manifests import attempt
from imagenet_operator.reconcile import outcome, training
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import cleanup, members
from imagenet_operator.reconcile.types import Attempt, End

Patch = pytest.MonkeyPatch


def does_not_wait_for_the_dataset(patch: Patch) -> None:
    holds = ReconcileContext.holds
    patch.setattr(
        ReconcileContext,
        "holds",
        lambda context, kind: (
            holds(context, kind) or (kind == "DatasetReady" and context.status.dataset is not None)
        ),
    )


def does_not_wait_for_former_pods(patch: Patch) -> None:
    patch.setattr(Attempt, "present", ())


def deletes_before_it_records(patch: Patch) -> None:
    end_attempt = outcome.end_attempt

    def hasty(context: ReconcileContext, end: End) -> None:
        context.delete(cleanup.attempts(context.observed.attempts.values()))
        end_attempt(context, end)

    patch.setattr(outcome, "end_attempt", hasty)


def uses_a_number_again(patch: Patch) -> None:
    begin, build = training.begin, attempt.build
    patch.setattr(attempt, "build", lambda job, _, *rest: build(job, 0, *rest))
    patch.setattr(training, "begin", lambda context, _, *rest: begin(context, 0, *rest))


def forgets_how_members_ended(patch: Patch) -> None:
    patch.setattr(members, "TERMINAL", frozenset())

"""Unsupported specs: this version does not accept a field that a newer operator has written.

A spec that is too large for the operator is unsupported, too.

The pods that exist go on: the newer operator has built them. Nothing is created from a spec of
which a part is unknown, and a job that has not started waits. Suspension, the end of an attempt and
clean-up need only the fields that can be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from imagenet_operator.api.status import Status
from imagenet_operator.errors import Problem
from imagenet_operator.reconcile.policies import job_status

REASON = "UnsupportedSpec"
"""The reason of Created, and of the condition of what does not start."""


def why(problems: Sequence[Problem]) -> tuple[str, str]:
    """Return the reason and the message of a condition.

    Args:
        problems: The fields that are not accepted; one at least.
    """
    if all(problem.stage == "operator" for problem in problems):
        return REASON, f"no pods are started: {'; '.join(map(str, problems))}"
    fields = "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
    return REASON, (
        "a newer operator wrote the spec; upgrade this operator, which starts no pods until then: "
        f"{fields}"
    )


def is_over(status: Status) -> bool:
    """Whether the status still names fields that are accepted by now."""
    created = job_status.find(status.conditions, "Created")
    return created is not None and (created.status, created.reason) == ("True", REASON)

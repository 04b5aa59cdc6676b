"""The size of a new job: how many workers and servers it may have together.

A status of more members has been measured up to this number (docs/benchmarks.md). A job that has
conditions keeps its size, because an earlier version admitted it: the API server applies rules also
when the operator writes the status.
"""

from __future__ import annotations

from typing import Any

from imagenet_operator.api.base import Rule, TransitionRule

MEMBERS_OF_NEW_JOBS = 5_000
"""Workers and servers together."""

_FIELD = "spec.training.workers.replicas"


def _members_cel(job: str) -> str:
    training = f"{job}.spec.training"
    servers = f"{training}.strategy.parameterServer"
    return f"{training}.workers.replicas + (has({servers}) ? {servers}.servers.replicas : 0)"


def _members(job: Any) -> int:
    training = job.spec.training
    sharded = training.strategy.parameter_server
    servers = 0 if sharded is None else sharded.servers.replicas
    return int(training.workers.replicas + servers)


SIZE = Rule(
    cel=(
        "(has(self.status) && has(self.status.conditions))"
        f" || {_members_cel('self')} <= {MEMBERS_OF_NEW_JOBS}"
    ),
    message=f"workers and servers must be at most {MEMBERS_OF_NEW_JOBS} together",
    field=_FIELD,
    holds=lambda job: bool(job.status.conditions) or _members(job) <= MEMBERS_OF_NEW_JOBS,
    explain=lambda job: (
        f"workers and servers are {_members(job)} together",
        f"write at most {MEMBERS_OF_NEW_JOBS}",
    ),
)
"""A rule of the whole resource, because it reads the status."""

GROWTH = TransitionRule(
    cel=(
        f"{_members_cel('self')} <= {MEMBERS_OF_NEW_JOBS}"
        f" || {_members_cel('self')} <= {_members_cel('oldSelf')}"
    ),
    message=f"workers and servers must not grow beyond {MEMBERS_OF_NEW_JOBS} together",
    field=_FIELD,
    holds=lambda job, before: _members(job) <= max(MEMBERS_OF_NEW_JOBS, _members(before)),
)
"""A job that has conditions must not grow beyond the limit either."""

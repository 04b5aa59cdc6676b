"""The size of a new job: how many workers and servers it may have together.

A status of more members has been measured up to this number (docs/benchmarks.md). Jobs that have
started keep their size: an earlier version admitted them.
"""

from __future__ import annotations

from typing import Any

from imagenet_operator.api.base import Rule

MEMBERS_OF_NEW_JOBS = 5_000
"""Workers and servers together."""

_SERVERS_CEL = (
    "(has(self.spec.training.strategy.parameterServer)"
    " ? self.spec.training.strategy.parameterServer.servers.replicas : 0)"
)


def _members(job: Any) -> int:
    training = job.spec.training
    sharded = training.strategy.parameter_server
    servers = 0 if sharded is None else sharded.servers.replicas
    return int(training.workers.replicas + servers)


SIZE = Rule(
    cel=(
        "(has(self.status) && has(self.status.startTime))"
        f" || self.spec.training.workers.replicas + {_SERVERS_CEL} <= {MEMBERS_OF_NEW_JOBS}"
    ),
    message=f"workers and servers must be at most {MEMBERS_OF_NEW_JOBS} together",
    field="spec.training.workers.replicas",
    holds=lambda job: job.status.start_time is not None or _members(job) <= MEMBERS_OF_NEW_JOBS,
    explain=lambda job: (
        f"workers and servers are {_members(job)} together",
        f"write at most {MEMBERS_OF_NEW_JOBS}",
    ),
)
"""A rule of the whole resource, because it reads the status."""

"""Which job is looked at first when an operator starts, and finds many."""

from __future__ import annotations

from typing import Any

from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.operator import Operator
from imagenet_operator.configuration import parse
from support.operator_harness import QUICK, job


def stored(name: str, version: int, status: dict[str, Any]) -> dict[str, Any]:
    found = job(name)
    found["metadata"] |= {"uid": name, "resourceVersion": str(version), "generation": 1}
    return {**found, "status": status}


def test_a_job_that_was_applied_while_there_was_no_operator_goes_before_those_that_run() -> None:
    operator = Operator(Client(Connection("http://nowhere")), parse(QUICK, "test"))
    started = {"startTime": "2026-01-02T03:04:05Z"}
    operator.job_event(None, stored("runs", 1, started))
    operator.job_event(None, stored("runs-too", 2, started))
    operator.job_event(None, stored("waits", 3, {}))
    operator.begin()

    queue = operator.loop.queue
    assert [queue.get(0.0) for _ in range(3)] == [
        ("vision", "waits"),
        ("vision", "runs"),
        ("vision", "runs-too"),
    ]

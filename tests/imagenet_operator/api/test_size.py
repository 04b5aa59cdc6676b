"""The size of a new job, and of a job that was admitted before."""

from __future__ import annotations

import copy

import pytest

from imagenet_operator.api import ImageNetJob, crd, validation
from support import crd_evaluator, job_table

FIELD = "spec.training.workers.replicas"


@pytest.mark.parametrize(("workers", "servers"), [(4999, 1), (4000, 1001), (5001, 0), (5000, 0)])
@pytest.mark.parametrize("started", [None, False, True])
def test_only_a_job_that_has_started_may_have_more_than_5000_workers_and_servers(
    workers: int, servers: int, started: bool | None
) -> None:
    job = job_table.manifest()
    training = job["spec"]["training"]
    training.update(batchSize=workers, strategy={"horovod": {}})
    training["workers"]["replicas"] = workers
    if servers:
        training["strategy"] = {"parameterServer": {"servers": {"replicas": servers}}}
    stored = copy.deepcopy(job)
    stored["status"] = {"startTime": "2026-01-02T03:04:05Z"} if started else {}
    previous = None if started is None else ImageNetJob.model_validate(stored)

    expected = {FIELD} if workers + servers > 5000 and not started else set()
    problems = validation.validate(job, previous)
    assert {problem.path for problem in problems} == expected
    before = None if started is None else stored
    assert crd_evaluator.problem_paths(crd.root_schema(), job, before) == expected

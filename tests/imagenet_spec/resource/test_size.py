"""The size of a new job, and of a job that was admitted before."""

from __future__ import annotations

import copy

import pytest

from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.job import root_schema
from imagenet_spec.validate import validate
from support import crd_evaluator, job_table

FIELD = "spec.training.workers.replicas"


def of_size(workers: int, servers: int) -> Manifest:
    job = job_table.manifest()
    training = job["spec"]["training"]
    training.update(batchSize=workers, strategy={"horovod": {}})
    training["workers"]["replicas"] = workers
    if servers:
        training["strategy"] = {"parameterServer": {"servers": {"replicas": servers}}}
    return job


def problems(job: Manifest, before: Manifest | None) -> set[str]:
    """Validate like the operator and like the API server, which must agree."""
    found = {problem.path for problem in validate(job, before)}
    assert crd_evaluator.problem_paths(root_schema(), job, before) == found
    return found


@pytest.mark.parametrize(("workers", "servers"), [(4999, 1), (4000, 1001), (5001, 0), (5000, 0)])
@pytest.mark.parametrize("status", [None, {}, {"conditions": [job_table.ADMITTED]}])
def test_only_a_job_with_conditions_may_have_more_than_5000_workers_and_servers(
    workers: int, servers: int, status: Manifest | None
) -> None:
    job = of_size(workers, servers)
    stored = None if status is None else copy.deepcopy(job) | {"status": status}
    is_refused = workers + servers > 5000 and not status
    assert problems(job | ({} if stored is None else {"status": status}), stored) == (
        {FIELD} if is_refused else set()
    )


def test_a_job_does_not_grow_beyond_the_limit_after_its_creation() -> None:
    status = {"status": {"conditions": [job_table.ADMITTED]}}
    small, large, larger = (of_size(workers, 0) | status for workers in (16, 5001, 5002))
    assert problems(large, small) == {FIELD}
    assert problems(larger, large) == {FIELD}
    assert problems(large, larger) == set()
    assert problems(small, larger) == set()

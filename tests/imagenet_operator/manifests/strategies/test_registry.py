"""Every strategy of the resource has a module that builds its members."""

import re

import pytest

from imagenet_operator.api.strategies import Strategy
from imagenet_operator.manifests import strategies
from support.job_table import JOBS


@pytest.mark.parametrize("kind", Strategy.kinds())
def test_each_strategy_is_found_by_its_name(kind: str) -> None:
    job = next(job for job in JOBS.values() if job.spec.training.strategy.kind == kind)
    module = strategies.of_job(job)
    snake = re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", kind)
    assert getattr(module, "__name__", "").endswith(f".strategies.{snake}")
    assert callable(module.members)

"""Every strategy of the resource has a module that builds its members, and names what it sets."""

import re
from fnmatch import fnmatchcase

import pytest

from imagenet_operator.manifests import strategies
from imagenet_operator.manifests.settings import DEFAULTS
from imagenet_spec.strategies import STRATEGIES
from support.job_table import JOBS


@pytest.mark.parametrize("kind", STRATEGIES)
def test_each_strategy_is_found_by_its_name(kind: str) -> None:
    job = next(job for job in JOBS.values() if job.spec.training.strategy.kind == kind)
    module = strategies.of_job(job)
    snake = re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", kind)
    assert getattr(module, "__name__", "").endswith(f".strategies.{snake}")
    assert callable(module.members)


@pytest.mark.parametrize("name", JOBS)
def test_what_tells_members_their_places_is_named_by_their_strategy(name: str) -> None:
    """By that name no template sets it, and a local run takes none that its shell has left."""
    job = JOBS[name]
    described = STRATEGIES[job.spec.training.strategy.kind]
    named = ("IMAGENET_*", *described.variables, *described.tuning)
    for replicas in strategies.of_job(job).members(job, 0, DEFAULTS):
        for variable in replicas.program.environment:
            assert any(fnmatchcase(variable, pattern) for pattern in named), variable


@pytest.mark.parametrize("name", JOBS)
def test_no_template_sets_a_variable_that_differs_between_pods_of_a_role(name: str) -> None:
    """The template of a role is merged once, so each pod has its own value after the merge."""
    job = JOBS[name]
    described = STRATEGIES[job.spec.training.strategy.kind]
    for replicas in strategies.of_job(job).members(job, 0, DEFAULTS):
        (variables,) = {frozenset(environment) for environment in replicas.environments}
        for variable in variables:
            assert any(fnmatchcase(variable, pattern) for pattern in described.variables), variable

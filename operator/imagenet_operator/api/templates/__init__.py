"""Validation of pod templates, which the schema does not check.

`validate` calls this last, on a job that the API server would accept. The builders call the same
function before a merge, because a stored job may not have been validated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from imagenet_operator.api.base import Model
from imagenet_operator.api.job import ImageNetJob
from imagenet_operator.api.templates import own_program, profiles
from imagenet_operator.api.templates.own_program import OwnProgram
from imagenet_operator.api.templates.owned_fields import owned_field_conflicts
from imagenet_operator.api.templates.pod_schema import misspelled, wrong_types
from imagenet_operator.api.templates.profiles import STANDARD, TemplateProfile
from imagenet_operator.errors import Problem

WORKERS = "spec.training.workers.template"
"""The only template that may run another program."""


def operator_problems(job: ImageNetJob, profile: TemplateProfile = STANDARD) -> list[Problem]:
    """Return every reason why an operator with a template profile would reject a stored job."""
    programs = {WORKERS: own_program.of_workers(job.spec.training)}
    return own_program.problems(job.spec.training) + [
        problem
        for path, template in template_fields(job.spec, "spec")
        for program in [programs.get(path, OwnProgram.NEVER)]
        for problem in (
            *misspelled(template, path),
            *template_problems(template, path, program, profile),
        )
    ]


def misspelled_fields(job: ImageNetJob) -> list[Problem]:
    """Return the fields of all templates that `manifests.template` leaves out of the pods.

    `operator_problems` refuses them in a new job. A job that has started keeps them: an earlier
    version admitted it.
    """
    return [
        problem
        for path, template in template_fields(job.spec, "spec")
        for problem in misspelled(template, path)
    ]


def template_problems(
    template: Mapping[str, Any],
    path: str,
    program: OwnProgram = OwnProgram.NEVER,
    profile: TemplateProfile = STANDARD,
) -> list[Problem]:
    """Return every reason why a template is invalid, or sets a field that it may not set.

    Args:
        template: A PodTemplateSpec from a manifest.
        path: Its field, such as ``spec.training.workers.template``.
        program: Whether it may run another program.
        profile: The operator's template profile.
    """
    # Types first: only a field of the right type has its value checked.
    return list(wrong_types(template, path)) or [
        *owned_field_conflicts(template, path, program),
        *profiles.problems(template, path, profile),
    ]


def template_fields(model: Model, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every template in a model with its path, in any strategy."""
    for name, field in type(model).model_fields.items():
        value, place = getattr(model, name), f"{path}.{field.alias or name}"
        if name == "template" and value is not None:
            yield place, value
        elif isinstance(value, Model):
            yield from template_fields(value, place)

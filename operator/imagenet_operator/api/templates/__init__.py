"""What the operator refuses although the schema cannot: the contents of pod templates.

`validate` calls this last, on a job that the API server would take.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from imagenet_operator.api.base import Model
from imagenet_operator.api.job import ImageNetJob
from imagenet_operator.api.templates import own_program
from imagenet_operator.api.templates.own_program import OwnProgram
from imagenet_operator.api.templates.owned_fields import owned_field_conflicts
from imagenet_operator.api.templates.pod_schema import wrong_types
from imagenet_operator.errors import Problem

WORKERS = "spec.training.workers.template"
"""The one template that may bring a program of its own."""


def operator_problems(job: ImageNetJob) -> list[Problem]:
    """Return every reason why the operator would fail a job that the API server has taken."""
    programs = {WORKERS: own_program.of_workers(job.spec.training)}
    return own_program.problems(job.spec.training) + [
        problem
        for path, template in _templates(job.spec, "spec")
        for problem in _of_template(template, path, programs.get(path, OwnProgram.NEVER))
    ]


def _of_template(template: dict[str, Any], path: str, program: OwnProgram) -> list[Problem]:
    # Types first, as everywhere: what a field says is judged only where it can be read.
    return list(wrong_types(template, path)) or owned_field_conflicts(template, path, program)


def _templates(model: Model, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every template of a job with its path, whatever strategy it stands in."""
    for name, field in type(model).model_fields.items():
        value, place = getattr(model, name), f"{path}.{field.alias or name}"
        if name == "template" and value is not None:
            yield place, value
        elif isinstance(value, Model):
            yield from _templates(value, place)

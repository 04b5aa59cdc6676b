"""What the operator refuses although the schema cannot: the contents of pod templates.

`validate` calls this last, on a job that the API server would take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from imagenet_operator.api import own_program
from imagenet_operator.api.base import Model
from imagenet_operator.api.job import ImageNetJob
from imagenet_operator.api.own_program import OwnProgram
from imagenet_operator.api.problems import Problem
from imagenet_operator.api.quantities import parse
from imagenet_operator.api.templates import owned_field_conflicts

WORKERS = "spec.training.workers.template"
"""The one template that may bring a program of its own."""


def operator_problems(job: ImageNetJob) -> list[Problem]:
    """Return every reason why the operator would fail a job that the API server has taken."""
    programs = {WORKERS: own_program.of_workers(job.spec.training)}
    return own_program.problems(job.spec.training) + [
        problem
        for path, template in _templates(job.spec, "spec")
        for problem in (
            *owned_field_conflicts(template, path, programs.get(path, OwnProgram.NEVER)),
            *_unreadable_quantities(template, path),
        )
    ]


def _templates(model: Model, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every template of a job with its path, whatever strategy it stands in."""
    for name, field in type(model).model_fields.items():
        value, place = getattr(model, name), f"{path}.{field.alias or name}"
        if name == "template" and value is not None:
            yield place, value
        elif isinstance(value, Model):
            yield from _templates(value, place)


def _unreadable_quantities(template: Mapping[str, Any], path: str) -> Iterator[Problem]:
    spec = template.get("spec")
    for field in ("containers", "initContainers"):
        containers = spec.get(field) if isinstance(spec, dict) else None
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            resources = container.get("resources") if isinstance(container, dict) else None
            place = f"{path}.spec.{field}[{index}].resources"
            yield from _unreadable(resources, place)


def _unreadable(resources: Any, path: str) -> Iterator[Problem]:
    for kind in ("limits", "requests"):
        amounts = resources.get(kind) if isinstance(resources, dict) else None
        for name, amount in (amounts if isinstance(amounts, dict) else {}).items():
            if amount is None:
                continue
            try:
                parse(amount)
            except ValueError:
                yield Problem(
                    f"{path}.{kind}.{name}",
                    f"{amount!r} is not a quantity",
                    "write one such as 16Gi, 500m or 2",
                    "operator",
                )

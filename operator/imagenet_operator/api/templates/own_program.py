"""A program of somebody else's in the workers, in place of `imagenet-train`.

`training.image` with a `command` in the workers' template (and `args`, if it takes any) is all that
it needs; `templates` lets these two fields through then, the worker's builder leaves its own
options out. Everything else of the pod stays as it is: docs/own-image.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any

from imagenet_operator.api.training import TrainingSpec
from imagenet_operator.errors import Problem

MAIN_CONTAINER = "main"
"""The container that runs the program; others in a template are the user's own."""


class OwnProgram(Enum):
    """Whether a template may bring a program of its own."""

    NEVER = auto()
    WITH_AN_IMAGE = auto()
    ALLOWED = auto()


def of_workers(training: TrainingSpec) -> OwnProgram:
    """Return whether the workers' template may bring one: where its image comes along."""
    return OwnProgram.WITH_AN_IMAGE if training.image is None else OwnProgram.ALLOWED


def has_command(template: Any) -> bool:
    """Whether a template brings a program of its own, whatever shape it has otherwise."""
    return any(container.get("command") for container in _main_containers(template))


def problems(training: TrainingSpec) -> list[Problem]:
    """Return why a job's own program would not get what the job says."""
    if not (training.extra_args and has_command(training.workers.template)):
        return []
    return [
        Problem(
            "spec.training.extraArgs",
            "are options of imagenet-train, and the workers' template runs a command of its own",
            "write them to its args",
            "operator",
        )
    ]


def _main_containers(template: Any) -> Iterator[Mapping[str, Any]]:
    spec = template.get("spec") if isinstance(template, Mapping) else None
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, Mapping) and container.get("name") == MAIN_CONTAINER:
            yield container

"""The user's own program in the workers, in place of `imagenet-train`.

It needs `training.image`, and a `command` in the workers' template, with `args` if it takes any.
`templates` then allows these two fields, and the worker's builder adds no options. The rest of the
pod is the same: docs/own-image.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any

from imagenet_spec.errors import Problem
from imagenet_spec.resource.training import TrainingSpec

MAIN_CONTAINER = "main"
"""The container of the program; other containers in a template belong to the user."""


class OwnProgram(Enum):
    """Whether a template may run another program."""

    NEVER = auto()
    WITH_AN_IMAGE = auto()
    ALLOWED = auto()


def of_workers(training: TrainingSpec) -> OwnProgram:
    """Return whether the workers' template may run one, which needs an image."""
    return OwnProgram.WITH_AN_IMAGE if training.image is None else OwnProgram.ALLOWED


def has_command(template: Any) -> bool:
    """Whether a template runs another program; the template may have any shape."""
    return any(container.get("command") for container in main_containers(template))


def command(training: TrainingSpec) -> str | None:
    """Return the command of a valid job's own program; None if it has none."""
    if training.image is None:
        return None
    for container in main_containers(training.workers.template):
        if container.get("command"):
            return str(container["command"][0])
    return None


def problems(training: TrainingSpec) -> list[Problem]:
    """Return the fields that a job's own program would not receive or follow."""
    if not has_command(training.workers.template):
        return []
    found = []
    if training.extra_args:
        what = "are options of imagenet-train, but the workers' template runs another command"
        found.append(("spec.training.extraArgs", what, "write them to its args"))
    for field, value in (
        ("workers.minReplicas", training.workers.min_replicas),
        ("earlyStopping", training.early_stopping),
        ("checkpoint.best", training.checkpoint.best),
        ("tracking", training.tracking),
        ("output.upload", training.upload),
        ("checkpoint.initFromRemote", training.checkpoint.init_from_remote),
        ("model.pretrainedRemote", training.model.pretrained_remote),
    ):
        if value is not None:
            what = "needs imagenet-train, but the workers' template runs another command"
            name = field.rpartition(".")[2]
            found.append((f"spec.training.{field}", what, f"remove {name}"))
    return [Problem(field, what, hint, "operator") for field, what, hint in found]


def main_containers(template: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the container of the program in a template, which may have any shape."""
    spec = template.get("spec") if isinstance(template, Mapping) else None
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, Mapping) and container.get("name") == MAIN_CONTAINER:
            yield container

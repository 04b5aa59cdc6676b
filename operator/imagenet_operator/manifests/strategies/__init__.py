"""How a job's members are made up: one module a strategy, found by the strategy's name.

`attempt` asks the strategy of a job for its roles and builds their pods. A module is called as
its strategy (`parameterServer` is `parameter_server.py`) and has one function,
`members(job, attempt, settings)`, so that a further strategy touches no file but its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from imagenet_operator.api import ImageNetJob
from imagenet_operator.manifests.pod import Program
from imagenet_operator.manifests.settings import Settings

PACKAGE = __name__


@dataclass(frozen=True)
class Replicas:
    """The pods of one role. They differ in their index and in a few variables.

    Attributes:
        program: What each of them runs.
        environments: The variables of each, in the order of their indices. All have the same
            names, which no template may set.
    """

    program: Program
    environments: Sequence[Mapping[str, str]]

    @classmethod
    def alike(cls, program: Program, count: int) -> Replicas:
        """Return pods that differ in their index alone."""
        return cls(program, ({},) * count)


class MemberBuilder(Protocol):
    """What a strategy's module has."""

    def members(self, job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
        """Return the members of an attempt by role, in the order in which they are created."""


def of_job(job: ImageNetJob) -> MemberBuilder:
    """Return the module of a job's strategy."""
    kind = job.spec.training.strategy.kind
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
    return cast(MemberBuilder, import_module(f"{PACKAGE}.{module}"))

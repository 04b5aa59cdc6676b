"""The members of a job: one module for each strategy, found by its name.

A module has the strategy's name (`parameterServer` is `parameter_server.py`) and one function,
`members(job, attempt, settings)`. A new strategy changes no other module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from imagenet_operator.manifests.pod import Program
from imagenet_operator.manifests.settings import Settings
from imagenet_spec.resource import ImageNetJob

PACKAGE = __name__


@dataclass(frozen=True)
class Replicas:
    """The pods of one role. They differ in their index and in a few variables.

    The variables are by index. All pods have the same names, which no template may set.
    """

    program: Program
    environments: Sequence[Mapping[str, str]]

    @classmethod
    def alike(cls, program: Program, count: int) -> Replicas:
        return cls(program, ({},) * count)


class MemberBuilder(Protocol):
    """The interface of a strategy's module."""

    def members(self, job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
        """Return the members of an attempt by role, in the order of their creation."""


def of_job(job: ImageNetJob) -> MemberBuilder:
    """Return the module of a job's strategy."""
    kind = job.spec.training.strategy.kind
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
    return cast(MemberBuilder, import_module(f"{PACKAGE}.{module}"))

"""How workers train together: one module a strategy, each with its fields, checks and CEL rules.

A further strategy adds its module and one field here. What it says of itself (`fields`) makes the
tables below, by which the rest of the resource knows it (docs/add-a-strategy.md).
"""

from __future__ import annotations

from typing import get_args, get_type_hints

from imagenet_operator.api.base import OneOf, Rule
from imagenet_operator.api.strategies.fields import StrategyFields
from imagenet_operator.api.strategies.horovod import Horovod
from imagenet_operator.api.strategies.mirrored import Mirrored
from imagenet_operator.api.strategies.multi_worker_mirrored import MultiWorkerMirrored
from imagenet_operator.api.strategies.parameter_server import ParameterServer
from imagenet_operator.api.strategies.single import Single

__all__ = ["DEVICES_CEL", "STRATEGIES", "TRAINING_RULES", "Strategy", "StrategyFields"]


class Strategy(OneOf):
    """Exactly one strategy."""

    parameter_server: ParameterServer | None = None
    """MXNet's parameter servers: any number of workers on any number of nodes."""

    single: Single | None = None
    """MXNet on one worker, with as many GPUs as its node has."""

    horovod: Horovod | None = None
    """Horovod, in MXNet or TensorFlow: any number of workers, one process for each GPU."""

    mirrored: Mirrored | None = None
    """TensorFlow's MirroredStrategy: one worker, with as many GPUs as its node has."""

    multi_worker_mirrored: MultiWorkerMirrored | None = None
    """TensorFlow's MultiWorkerMirroredStrategy: any number of workers on any number of nodes."""

    def devices(self, gpus: int) -> int:
        """Return how many devices of a worker with so many GPUs share a batch.

        Where none or several strategies are given, which another rule refuses, the most of them.
        """
        given = (fields for fields in self.given.values() if isinstance(fields, StrategyFields))
        return max(fields.devices(gpus) for fields in (StrategyFields(), *given))


def _strategies() -> dict[str, type[StrategyFields]]:
    hints = get_type_hints(Strategy)
    return {
        field.alias or name: next(iter(get_args(hints[name])))
        for name, field in Strategy.model_fields.items()
    }


STRATEGIES: dict[str, type[StrategyFields]] = _strategies()
"""A strategy's name in a manifest → its fields."""

TRAINING_RULES: tuple[Rule, ...] = tuple(
    rule for fields in STRATEGIES.values() for rule in fields.training_rules
)
"""What strategies ask of the rest of `spec.training`."""


def variables() -> tuple[str, ...]:
    """Return what tells the members of any strategy their places, as patterns of variables."""
    return tuple(name for fields in STRATEGIES.values() for name in fields.variables)


def tuning() -> tuple[str, ...]:
    """Return what else the libraries of any strategy read, as patterns of variables."""
    return tuple(name for fields in STRATEGIES.values() for name in fields.tuning)


def _devices_cel() -> str:
    expression = StrategyFields.devices_cel
    for kind, fields in STRATEGIES.items():
        if fields.devices_cel != StrategyFields.devices_cel:
            expression = f"(has(self.strategy.{kind}) ? {fields.devices_cel} : {expression})"
    return expression


DEVICES_CEL = _devices_cel()
"""How many devices of a worker share a batch, by the strategy: CEL over `spec.training`."""

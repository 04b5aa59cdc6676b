"""The strategies: one module each, with its fields and rules.

A new strategy adds its module and one field here. The tables below are derived from its attributes
(`fields`). docs/add-a-strategy.md shows the steps.
"""

from __future__ import annotations

from imagenet_spec.resource.base import OneOf
from imagenet_spec.resource.strategies.distributed_data_parallel import DistributedDataParallel
from imagenet_spec.resource.strategies.fields import StrategyFields
from imagenet_spec.resource.strategies.horovod import Horovod
from imagenet_spec.resource.strategies.mirrored import Mirrored
from imagenet_spec.resource.strategies.multi_worker_mirrored import MultiWorkerMirrored
from imagenet_spec.resource.strategies.parameter_server import ParameterServer
from imagenet_spec.resource.strategies.single import Single
from imagenet_spec.rules import Rule

__all__ = ["DEVICES_CEL", "STRATEGIES", "TRAINING_RULES", "Strategy", "StrategyFields"]


class Strategy(OneOf):
    """Exactly one strategy."""

    parameter_server: ParameterServer | None = None
    """MXNet's parameter servers: several workers on several nodes."""

    single: Single | None = None
    """One worker: MXNet with one or several GPUs, or PyTorch with one device."""

    horovod: Horovod | None = None
    """Horovod, in MXNet or TensorFlow: several workers, one process for each GPU."""

    mirrored: Mirrored | None = None
    """TensorFlow's MirroredStrategy: one worker, with one or several GPUs."""

    multi_worker_mirrored: MultiWorkerMirrored | None = None
    """TensorFlow's MultiWorkerMirroredStrategy: several workers on several nodes."""

    distributed_data_parallel: DistributedDataParallel | None = None
    """PyTorch's DistributedDataParallel: several workers, one process for each GPU."""

    def processes(self, gpus: int) -> int:
        return max(fields.processes(gpus) for fields in self._fields)

    def devices(self, gpus: int) -> int:
        """Return the number of devices of a worker that share a batch.

        If no or several strategies are given, which another rule rejects, this is the maximum.
        """
        return max(fields.devices(gpus) for fields in self._fields)

    @property
    def _fields(self) -> list[StrategyFields]:
        given = self.given.values()
        return [StrategyFields(), *(one for one in given if isinstance(one, StrategyFields))]


STRATEGIES: dict[str, type[StrategyFields]] = Strategy.kinds()
"""A strategy's name in a manifest → its fields."""

TRAINING_RULES: tuple[Rule, ...] = tuple(
    rule for fields in STRATEGIES.values() for rule in fields.training_rules
)
"""The rules of all strategies for `spec.training`."""


def _devices_cel() -> str:
    expression = StrategyFields.devices_cel
    for kind, fields in STRATEGIES.items():
        if fields.devices_cel != StrategyFields.devices_cel:
            expression = f"(has(self.strategy.{kind}) ? {fields.devices_cel} : {expression})"
    return expression


DEVICES_CEL = _devices_cel()
"""The number of devices of a worker that share a batch: CEL over `spec.training`."""

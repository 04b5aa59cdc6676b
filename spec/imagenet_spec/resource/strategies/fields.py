"""The base class of the fields of a strategy.

The rest of the resource uses this class, not a strategy's name. So a new strategy is one module and
one field of the union (`strategies.Strategy`).
"""

from __future__ import annotations

from typing import Any, ClassVar

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.resource.base import Model
from imagenet_spec.rules import Rule


class StrategyFields(Model):
    """The fields of one strategy. The class variables are for the rest of the resource.

    What is not about fields is in its descriptor (`imagenet_spec.strategies`), and the descriptors
    of the frameworks that support it name it.
    """

    training_rules: ClassVar[tuple[Rule, ...]] = ()
    """Its rules for `spec.training`."""

    frozen: ClassVar[tuple[str, ...]] = ()
    """Fields that cannot change once a job has started, even while it is suspended."""

    incidental: ClassVar[tuple[str, ...]] = ()
    """Fields that do not change what a job computes: they are not part of its identity."""

    devices_cel: ClassVar[str] = "(self.workers.gpus > 0 ? self.workers.gpus : 1)"
    """`devices` as a CEL expression over `spec.training`; never 0, even for invalid values."""

    def processes(self, gpus: int) -> int:
        """Return the number of processes of a worker with so many GPUs."""
        del gpus
        return 1

    def devices(self, gpus: int) -> int:
        """Return the number of devices of a worker that share a batch."""
        return max(gpus, 1)


def one_worker(kind: str, *instead: str) -> Rule:
    """Return the rule that a strategy, by its name in a manifest, has one worker.

    `instead` are strategies for several workers: the first one of each framework is its hint.
    """
    message = f"must have 1 replica with the strategy {kind}"

    def explain(training: Any) -> tuple[str, str]:
        known = FRAMEWORKS[training.framework].strategies
        other = next((name for name in instead if name in known), instead[0])
        return (
            f"{message}, not {training.workers.replicas}",
            f"write replicas: 1, or strategy: {{{other}: {{}}}}",
        )

    return Rule(
        cel=f"!has(self.strategy.{kind}) || self.workers.replicas == 1",
        message=message,
        field="workers",
        explain=explain,
    )

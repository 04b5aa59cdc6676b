"""What every strategy says of itself: the class that each strategy's fields extend.

The rest of the resource asks it and no strategy by name, so that another strategy is a module of
its own and one field of the union (`strategies.Strategy`).
"""

from __future__ import annotations

from typing import Any, ClassVar

from imagenet_operator.api.base import Model, Rule


class StrategyFields(Model):
    """The fields of one strategy. Those of the class itself are for the rest of the resource.

    The frameworks that have the strategy name it in their descriptors (`api.frameworks`).
    """

    training_rules: ClassVar[tuple[Rule, ...]] = ()
    """What it asks of the rest of `spec.training`, where these rules stand."""

    frozen: ClassVar[tuple[str, ...]] = ()
    """Fields that stay as they are in a job that has started, even while it is suspended."""

    incidental: ClassVar[tuple[str, ...]] = ()
    """Fields that decide how a job runs and not what it computes: no part of its identity."""

    variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that tell its members their places: no template may set them, and a
    local run takes none from its shell. An asterisk stands for anything, as in ``DMLC_*``."""

    tuning: ClassVar[tuple[str, ...]] = ()
    """What else its libraries read from the environment: a template may set these, but a local run
    does not take them from its shell, either."""

    devices_cel: ClassVar[str] = "(self.workers.gpus > 0 ? self.workers.gpus : 1)"
    """`devices` as a CEL expression over `spec.training`; never 0, whatever stands there."""

    def devices(self, gpus: int) -> int:
        """Return how many devices of a worker share a batch.

        Args:
            gpus: The worker's GPUs.
        """
        return max(gpus, 1)


def one_worker(kind: str, instead: str) -> Rule:
    """Return the rule that a strategy has one worker.

    Args:
        kind: The strategy's name in a manifest.
        instead: A strategy for more of them.
    """
    message = f"must have 1 replica with the strategy {kind}"

    def explain(training: Any) -> tuple[str, str]:
        return (
            f"{message}, not {training.workers.replicas}",
            f"write replicas: 1, or strategy: {{{instead}: {{}}}}",
        )

    return Rule(
        cel=f"!has(self.strategy.{kind}) || self.workers.replicas == 1",
        message=message,
        field="workers",
        holds=lambda training: (
            kind not in training.strategy.given or training.workers.replicas == 1
        ),
        explain=explain,
    )

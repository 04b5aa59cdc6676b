"""The strategy `single`: one worker on one machine, with the GPUs it is given."""

from __future__ import annotations

from typing import Literal

from imagenet_operator.api.base import Model, Rule


class Single(Model):
    """One process, no network."""

    kv_store: Literal["local", "device"] = "device"
    """MXNet's kvstore: local adds the GPUs' gradients up on the host, device on the GPUs."""


TRAINING_RULES = (
    Rule(
        cel="!has(self.strategy.single) || self.workers.replicas == 1",
        message="must have 1 replica with the strategy single",
        field="workers",
        holds=lambda training: training.strategy.single is None or training.workers.replicas == 1,
        explain=lambda training: (
            f"must have 1 replica with the strategy single, not {training.workers.replicas}",
            "write replicas: 1, or strategy: {parameterServer: {}}",
        ),
    ),
)
"""What this strategy asks of the rest of the training."""

FROZEN = ("kvStore",)
"""What stays as it is in a job that has started, even while it is suspended."""

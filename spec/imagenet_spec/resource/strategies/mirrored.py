"""The strategy `mirrored`: TensorFlow's MirroredStrategy, one worker with several devices."""

from __future__ import annotations

from imagenet_spec.resource.strategies.fields import StrategyFields, one_worker


class Mirrored(StrategyFields):
    """One process; each GPU has a replica of the network, and gradients are summed."""

    training_rules = (one_worker("mirrored", "multiWorkerMirrored"),)

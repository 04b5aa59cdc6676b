"""The strategy `mirrored`: TensorFlow's MirroredStrategy, one worker with several devices."""

from __future__ import annotations

from imagenet_operator.api.strategies.fields import StrategyFields, one_worker


class Mirrored(StrategyFields):
    """One process, whose GPUs each hold the whole network and add their gradients up."""

    training_rules = (one_worker("mirrored", instead="multiWorkerMirrored"),)

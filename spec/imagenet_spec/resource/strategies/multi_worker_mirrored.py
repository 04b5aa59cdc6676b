"""The strategy `multiWorkerMirrored`: TensorFlow's all-reduce between workers."""

from __future__ import annotations

from imagenet_spec.resource.strategies.fields import StrategyFields


class MultiWorkerMirrored(StrategyFields):
    """Each worker has a replica of the network; each step sums the gradients of all of them."""

"""The strategy `multiWorkerMirrored`: TensorFlow's, in which workers reduce among themselves."""

from __future__ import annotations

from imagenet_operator.api.strategies.fields import StrategyFields


class MultiWorkerMirrored(StrategyFields):
    """Each worker holds the whole network; all of them add their gradients up in each step."""

    variables = ("TF_CONFIG",)

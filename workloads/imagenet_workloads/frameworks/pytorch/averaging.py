"""An exponential moving average of a network's weights and of BatchNorm's statistics.

After each update, average = decay * average + (1 - decay) * value (Polyak and Juditsky 1992, with
weights that decay). It starts with the values of the first update's begin. Imports PyTorch.
"""

import copy
from collections.abc import Mapping

import torch
from torch import nn


class MovingAverage:
    """The average of a network.

    Attributes:
        network: with the averages as values.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        """Start with a network's values, on its device."""
        self.network = copy.deepcopy(network).requires_grad_(False)
        self._decay = decay

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def update(self, network: nn.Module) -> None:
        """Add the network's values; whole numbers are taken as they are."""
        averages, values = self.network.state_dict(), network.state_dict()
        for name, average in averages.items():
            if average.is_floating_point():
                average.lerp_(values[name], 1 - self._decay)
            else:
                average.copy_(values[name])

    def load(self, averages: Mapping[str, torch.Tensor]) -> None:
        """Go on with saved averages.

        Raises:
            RuntimeError: they belong to another network.
        """
        self.network.load_state_dict(averages)

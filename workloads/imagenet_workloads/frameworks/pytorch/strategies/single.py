"""One process without peers, on one device. Imports PyTorch."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from imagenet_workloads.train.group import Alone


class Single(Alone):
    """A process without peers; implements `Strategy`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def distribute(self, network: nn.Module) -> nn.Module:
        return network

    def accumulating(self) -> AbstractContextManager[None]:
        """Do nothing: gradients stay here anyway."""
        return nullcontext()

    def start_sum(self, numbers: Sequence[int]) -> Callable[[], list[int]]:
        return lambda: list(numbers)


def join(device: torch.device) -> Single:
    """Make the strategy."""
    return Single(device)

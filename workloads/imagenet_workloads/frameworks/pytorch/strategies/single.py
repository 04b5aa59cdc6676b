"""One process without peers, on one device. Imports PyTorch."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from imagenet_workloads.train.moving_statistics import Rows


class Single:
    """A process without peers; implements `Strategy`."""

    rank, workers, images_divisor = 0, 1, 1
    collective = True

    def __init__(self, device: torch.device) -> None:
        """Take the device."""
        self.device = device

    def distribute(self, network: nn.Module) -> nn.Module:
        """Return the network as it is."""
        return network

    def accumulating(self) -> AbstractContextManager[None]:
        """Do nothing: gradients stay here anyway."""
        return nullcontext()

    def start_sum(self, numbers: Sequence[int]) -> Callable[[], list[int]]:
        """Return the numbers."""
        return lambda: list(numbers)

    def gather(self, own: Rows) -> Rows:
        """Return those of this process."""
        return own

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Return the numbers."""
        return list(numbers)

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Return the numbers."""
        return list(numbers)

    def wait_for_all(self) -> None:
        """Return at once."""

    def close(self) -> None:
        """Leave no one behind."""


def join(device: torch.device) -> Single:
    """Make the strategy."""
    return Single(device)

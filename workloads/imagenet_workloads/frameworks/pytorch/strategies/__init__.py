"""How PyTorch's processes exchange gradients: what a strategy adds to the group of workers."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import nn

from imagenet_workloads.train.group import Group
from imagenet_workloads.train.moving_statistics import Rows


class Strategy(Group, Protocol):
    """How one process computes on its `device` and exchanges with the others."""

    device: torch.device

    def distribute(self, network: nn.Module) -> nn.Module:
        """Return the module to train; its backward pass averages gradients over the processes.

        All processes begin with rank 0's weights and statistics.
        """

    def accumulating(self) -> AbstractContextManager[None]:
        """Keep the gradients of a block's forward and backward passes in this process."""

    def start_sum(self, numbers: Sequence[int]) -> Callable[[], list[int]]:
        """Begin to sum whole numbers over the processes; return a function that waits for it."""

    def gather(self, own: Rows) -> Rows:
        """Return the moving statistics of all processes by rank, (processes, numbers)."""


def join(name: str, device: torch.device) -> Strategy:
    """Make the strategy whose module has this name; return when every process has joined."""
    strategy: Strategy = importlib.import_module(f"{__package__}.{name}").join(device)
    return strategy

"""LAMB, an optimizer for large batches (You et al. 2020), which torch.optim lacks.

    m = 0.9 m + 0.1 g;  v = 0.999 v + 0.001 g^2
    d = m / (1 - 0.9^t) / (sqrt(v / (1 - 0.999^t)) + 1e-6) + wd * w
    w -= lr * |w| / |d| * d

g is the gradient and t the update, from 1. If a norm is 0, the quotient of both is 1. Constants and
formula are those of MXNet's LAMB. Imports PyTorch.
"""

from collections.abc import Callable
from typing import Any

import torch

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-6


class Lamb(torch.optim.Optimizer):  # type: ignore[misc]
    """The optimizer; groups of weights have `lr` and `weight_decay`."""

    def __init__(self, groups: list[dict[str, Any]], rate: float) -> None:
        """Take the groups of weights, and the learning rate of those that have none."""
        super().__init__(groups, {"lr": rate, "weight_decay": 0.0})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Move every weight that has a gradient."""
        del closure
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, group["lr"], group["weight_decay"])

    def _move(self, weight: torch.Tensor, rate: float, decay: float) -> None:
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        mean, square, gradient = state["exp_avg"], state["exp_avg_sq"], weight.grad
        state["step"] += 1
        mean.lerp_(gradient, 1 - _BETA1)
        square.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        number = state["step"].item()
        root = (square / (1 - _BETA2**number)).sqrt_().add_(_EPSILON)
        direction = (mean / (1 - _BETA1**number)).div_(root).add_(weight, alpha=decay)
        sizes = weight.norm(), direction.norm()
        trust = torch.where(sizes[0] * sizes[1] > 0, sizes[0] / sizes[1], 1.0)
        weight.sub_(direction.mul_(trust), alpha=rate)

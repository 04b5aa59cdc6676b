"""MXNet's optimizers by those of torch.optim. As in MXNet, biases and betas do not decay.

    sgd      m = mom * m - lr * (g + wd * w);  w += m
    nag      the same with PyTorch's Nesterov momentum
    adam     with wd * w in the gradient
    rmsprop  the same, not centred, over a moving mean of squares
    adamw    adam without the decay in the gradient;  w -= lr * wd * w (Loshchilov and Hutter 2019)
    lamb     `lamb`

g is the mean over the images of all processes. MXNet's other optimizers are not available, and
MXNet has no adamw.

In torch.optim the momentum is a sum of gradients, which the present learning rate multiplies as a
whole. In MXNet each gradient keeps the rate of its own update. To have the same, the sum is
multiplied by the quotient of the two rates whenever the rate changes.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from imagenet_spec.program.train import OptimizerOptions
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch.lamb import Lamb
from imagenet_workloads.frameworks.pytorch.precision import Precision
from imagenet_workloads.train.schedule import Schedule

_Groups = list[dict[str, Any]]

OPTIMIZERS: Mapping[str, Callable[[_Groups, OptimizerOptions], torch.optim.Optimizer]] = {
    "adam": lambda groups, options: torch.optim.Adam(groups, options.lr),
    "adamw": lambda groups, options: torch.optim.AdamW(groups, options.lr),
    "lamb": lambda groups, options: Lamb(groups, options.lr),
    "nag": lambda groups, options: torch.optim.SGD(
        groups, options.lr, options.mom, nesterov=options.mom > 0
    ),
    "rmsprop": lambda groups, options: torch.optim.RMSprop(groups, options.lr, alpha=0.9),
    "sgd": lambda groups, options: torch.optim.SGD(groups, options.lr, options.mom),
}


def check(options: OptimizerOptions) -> None:
    """Check the name.

    Raises:
        InputError: there is no such optimizer for PyTorch.
    """
    if options.optimizer.lower() in OPTIMIZERS:
        return
    near = difflib.get_close_matches(options.optimizer.lower(), OPTIMIZERS, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(
        f"--optimizer (optimizer.name): PyTorch has no {options.optimizer!r} here; {hint}write "
        f"one of {', '.join(OPTIMIZERS)}, or --framework MXNet (framework: MXNet)"
    )


class Updater:
    """An optimizer that moves a network's weights by a schedule.

    Attributes:
        name: the optimizer's, as in OPTIMIZERS.
        precision: of the operations; with float16 it scales the loss.
    """

    def __init__(
        self,
        options: OptimizerOptions,
        network: nn.Module,
        schedule: Schedule,
        precision: Precision | None = None,
    ) -> None:
        """Take the settings, the weights, and the learning rate of each update.

        Args:
            options: the settings.
            network: has the weights.
            schedule: of the learning rate.
            precision: of the operations; None is float32.
        """
        self.name = options.optimizer.lower()
        self.precision = precision or Precision()
        self._schedule, self._clip = schedule, options.clip_gradient
        named = list(network.named_parameters())
        decayed = [(name, weight) for name, weight in named if name.endswith("weight")]
        others = [(name, weight) for name, weight in named if not name.endswith("weight")]
        # In the order of the optimizer, which numbers its states.
        self._weights = dict((*decayed, *others))
        groups = [
            {"params": [weight for _, weight in decayed], "weight_decay": options.wd},
            {"params": [weight for _, weight in others], "weight_decay": 0.0},
        ]
        self._optimizer = OPTIMIZERS[self.name](groups, options)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of a loss, multiplied by the precision's scale."""
        self.precision.scaler.scale(loss).backward()

    def update(self, number: int) -> None:
        """Move the weights by their gradients, and drop these.

        Args:
            number: of the update, from 0 over the whole training.
        """
        rate = self._schedule(number)
        last = self._schedule(number - 1) if number else rate
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if rate not in (0, last):
            self._scale_momentum(last / rate)
        scaler = self.precision.scaler
        scaler.unscale_(self._optimizer)
        if self._clip is not None:
            nn.utils.clip_grad_value_(self._weights.values(), self._clip)
        scaler.step(self._optimizer)
        scaler.update()
        self._optimizer.zero_grad()

    def _scale_momentum(self, factor: float) -> None:
        for arrays in self._optimizer.state.values():
            if (momentum := arrays.get("momentum_buffer")) is not None:
                momentum *= factor

    def states(self) -> dict[str, torch.Tensor]:
        """Return the state arrays by WEIGHT/ARRAY, and those of the precision by :NAME."""
        names = list(self._weights)
        return self.precision.states() | {
            f"{names[place]}/{name}": array
            for place, arrays in self._optimizer.state_dict()["state"].items()
            for name, array in arrays.items()
            if array is not None
        }

    def load_states(self, states: Mapping[str, torch.Tensor]) -> None:
        """Load saved states.

        Raises:
            ValueError: they belong to another network or optimizer.
        """
        loaded: dict[int, dict[str, torch.Tensor]] = {}
        places = {name: place for place, name in enumerate(self._weights)}
        self.precision.load_states(states)
        for key, array in states.items():
            if key.startswith(":"):
                continue
            weight, _, name = key.rpartition("/")
            if weight not in places:
                raise ValueError(f"it has no weight {weight}")
            laid_out = _as(self._weights[weight], array)
            loaded.setdefault(places[weight], {})[name] = laid_out
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": loaded, "param_groups": groups})


def _as(weight: torch.Tensor, array: torch.Tensor) -> torch.Tensor:
    """Return a state with the strides of its weight, as the optimizer makes it.

    A file has none. The order of a sum follows the strides, and with it the last bits.
    """
    if array.shape != weight.shape:
        return array
    return torch.empty_like(weight, dtype=array.dtype).copy_(array)

"""MXNet's optimizers by those of torch.optim. As in MXNet, biases and betas do not decay.

    sgd      m = mom * m - lr * (g + wd * w);  w += m
    nag      the same with PyTorch's Nesterov momentum
    adam     with wd * w in the gradient
    rmsprop  the same, not centred, over a moving mean of squares
    adamw    adam without the decay in the gradient;  w -= lr * wd * w (Loshchilov and Hutter 2019)
    lamb     `Lamb`

g is the mean over the images of all processes. MXNet's other optimizers are not available, and
MXNet has no adamw.

In torch.optim the momentum is a sum of gradients, which the present learning rate multiplies as a
whole. In MXNet each gradient keeps the rate of its own update. To have the same, the sum is
multiplied by the quotient of the two rates whenever the rate changes.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from imagenet_spec.program.train import OptimizerOptions
from imagenet_workloads.train.networks import require_optimizer
from imagenet_workloads.train.schedule import Schedule

_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SCALE, _TRACKER = ":scale", ":growth_tracker"


class Precision:
    """The precision of operations on a device: autocast, and with float16 a scaled loss.

    Weights, their gradients and the optimizer's arrays stay in float32, and so do validation and
    the exported model. In float16 small gradients would round to 0. So the loss is multiplied by a
    scale, and the gradients are divided by it before an update. If a gradient overflows, the
    weights stay, and the scale is halved (Micikevicius et al. 2018).
    """

    def __init__(self, name: str = "float32", device: torch.device | None = None) -> None:
        """Take a value of --dtype, and the network's device; None is the CPU."""
        kind = "cpu" if device is None else device.type
        self._kind, self._type = kind, _TYPES[name]
        self.scaler = torch.amp.GradScaler(kind, enabled=self._type == torch.float16)

    def autocast(self) -> torch.autocast:
        """Compute a block's forward pass in the precision, where PyTorch knows that it suffices."""
        return torch.autocast(self._kind, self._type, enabled=self._type != torch.float32)

    def states(self) -> dict[str, torch.Tensor]:
        """Return the scale, and the updates since it changed; nothing without a scale."""
        if not self.scaler.is_enabled():
            return {}
        found = self.scaler.state_dict()
        scale, tracker = found["scale"], found["_growth_tracker"]
        return {_SCALE: torch.tensor(scale), _TRACKER: torch.tensor(tracker)}

    def load_states(self, states: Mapping[str, torch.Tensor]) -> None:
        """Go on with saved states; ValueError if they lack a scale that the precision needs."""
        if not self.scaler.is_enabled():
            return
        if not {_SCALE, _TRACKER} <= states.keys():
            raise ValueError("it has no scale of float16")
        saved = {"scale": states[_SCALE].item(), "_growth_tracker": states[_TRACKER].item()}
        self.scaler.load_state_dict({**self.scaler.state_dict(), **saved})


_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-6


class Lamb(torch.optim.Optimizer):  # type: ignore[misc]
    """LAMB, for large batches (You et al. 2020), which torch.optim lacks.

        m = 0.9 m + 0.1 g;  v = 0.999 v + 0.001 g^2
        d = m / (1 - 0.9^t) / (sqrt(v / (1 - 0.999^t)) + 1e-6) + wd * w
        w -= lr * |w| / |d| * d

    g is the gradient and t the update, from 1. If a norm is 0, the quotient of both is 1. Constants
    and formula are those of MXNet's LAMB. Groups of weights have `lr` and `weight_decay`.
    """

    def __init__(self, groups: list[dict[str, Any]], rate: float) -> None:
        super().__init__(groups, {"lr": rate, "weight_decay": 0.0})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], float] | None = None) -> None:
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


class MovingAverage:
    """An exponential moving average of a network's weights and of BatchNorm's statistics.

    After each update, average = decay * average + (1 - decay) * value (Polyak and Juditsky 1992,
    with weights that decay). It starts with the values of the first update's begin. Its `network`
    has the averages as values.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network = copy.deepcopy(network).requires_grad_(False)
        self._decay = decay

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def update(self, network: nn.Module) -> None:
        averages, values = self.network.state_dict(), network.state_dict()
        for name, average in averages.items():
            if average.is_floating_point():
                average.lerp_(values[name], 1 - self._decay)
            else:
                average.copy_(values[name])

    def load(self, averages: Mapping[str, torch.Tensor]) -> None:
        """Go on with saved averages; RuntimeError if they belong to another network."""
        self.network.load_state_dict(averages)


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
    """Check the name."""
    require_optimizer("PyTorch", options.optimizer, OPTIMIZERS)


class Updater:
    """An optimizer, a name of OPTIMIZERS, that moves a network's weights by a schedule."""

    def __init__(
        self,
        options: OptimizerOptions,
        network: nn.Module,
        schedule: Schedule,
        precision: Precision | None = None,
    ) -> None:
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
        self.precision.scaler.scale(loss).backward()

    def update(self, number: int) -> None:
        """Move the weights by their gradients, and drop these; updates count from 0."""
        rate = self._schedule(number)
        last = self._schedule(number - 1) if number else rate
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if rate not in (0, last):
            for arrays in self._optimizer.state.values():
                if (momentum := arrays.get("momentum_buffer")) is not None:
                    momentum *= last / rate
        scaler = self.precision.scaler
        scaler.unscale_(self._optimizer)
        if self._clip is not None:
            nn.utils.clip_grad_value_(self._weights.values(), self._clip)
        scaler.step(self._optimizer)
        scaler.update()
        self._optimizer.zero_grad()

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
        """Load saved states; ValueError if they belong to another network or optimizer."""
        loaded: dict[int, dict[str, torch.Tensor]] = {}
        places = {name: place for place, name in enumerate(self._weights)}
        self.precision.load_states(states)
        for key, array in states.items():
            if key.startswith(":"):
                continue
            weight, _, name = key.rpartition("/")
            if weight not in places:
                raise ValueError(f"it has no weight {weight}")
            like = self._weights[weight]
            if array.shape == like.shape:
                # With the strides of its weight, as the optimizer makes it; a file has none. The
                # order of a sum follows the strides, and with it the last bits.
                array = torch.empty_like(like, dtype=array.dtype).copy_(array)
            loaded.setdefault(places[weight], {})[name] = array
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": loaded, "param_groups": groups})

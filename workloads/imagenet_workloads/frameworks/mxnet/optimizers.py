"""Makes MXNet's optimizer from the options, applies it on the worker, and saves its state.

Strategies that keep the optimizer on the workers (all but dist_async) use `LocalUpdater`, so its
state can be part of a checkpoint. Imports MXNet.
"""

import inspect
import json
import pickle
from collections.abc import Mapping
from typing import Any

import mxnet as mx

from imagenet_spec.names import HINT, nearest
from imagenet_spec.program.train import OptimizerOptions
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.train.schedule import Schedule

# Numbers that MXNet's optimizers change outside of their states.
RUNNING_NUMBERS = ("m_schedule", "cur_lr", "last_lr")


class ByUpdate:
    """A Schedule as MXNet's optimizers call it; they set `base_lr`, which is not used.

    They count updates from 1. A server of dist_async counts each push of each worker, so `workers`
    of its counts are one update here.
    """

    def __init__(self, schedule: Schedule, workers: int = 1) -> None:
        self._schedule = schedule
        self._workers = workers
        self.base_lr = schedule.peak

    def __call__(self, num_update: int) -> float:
        return self._schedule(max(num_update - 1, 0) // self._workers)


def create(
    options: OptimizerOptions,
    replicas: Replicas,
    rate: ByUpdate,
    images_per_update: int,
    updates_done: int,
) -> mx.optimizer.Optimizer:
    """Make the optimizer; InputError if MXNet has none of the name, or rejects its settings.

    The names of the weights decide on weight decay. A sum of gradients is divided by
    `images_per_update`. Optimizers that count, such as Adam, begin with `updates_done`.
    """
    name, known = options.optimizer.lower(), known_names()
    if name not in known:
        meant = nearest(name, known, HINT)
        hint = f"did you mean {meant}? Known" if meant else "write one of"
        raise InputError(
            f"--optimizer (optimizer.name): {options.optimizer!r} is unknown; {hint}: "
            f"{', '.join(known)}"
        )
    return mx.optimizer.create(
        name,
        learning_rate=rate.base_lr,
        lr_scheduler=rate,
        wd=options.wd,
        clip_gradient=options.clip_gradient,
        rescale_grad=1.0 / images_per_update,
        begin_num_update=updates_done,
        multi_precision=True,
        param_idx2name=dict(enumerate(replicas.weight_names)),
        sym=replicas.symbol,
        **_settings(options),
    )


def known_names() -> list[str]:
    """List MXNet's optimizers that can train a network."""
    # MXNet also registers the optimizer of its own tests. Its groupadagrad rejects biases, which
    # every network has.
    return sorted(set(mx.optimizer.Optimizer.opt_registry) - {"test", "groupadagrad"})


def _settings(options: OptimizerOptions) -> dict[str, Any]:
    """Return what only some optimizers take."""
    name = options.optimizer.lower()
    if name == "dcasgd" and options.mom:
        raise InputError(
            "--optimizer (optimizer.name): MXNet's dcasgd fails with momentum; write --mom 0 "
            "(momentum: 0) with it"
        )
    settings: dict[str, Any] = {}
    if "momentum" in inspect.signature(mx.optimizer.Optimizer.opt_registry[name]).parameters:
        settings["momentum"] = options.mom
    if name == "lbsgd":
        # For every optimizer the schedule warms up and the loop accumulates; lars is its own.
        lars = options.warmup_strategy == "lars"
        settings |= {"warmup_strategy": "lars" if lars else "linear", "warmup_epochs": 0}
    return settings


def _fixed_gammas(replicas: Replicas) -> list[str]:
    """List the trained weights that are always 1 in BatchNorm."""
    nodes = json.loads(replicas.symbol.tojson())["nodes"]
    found = {
        nodes[node["inputs"][1][0]]["name"]
        for node in nodes
        # In MXNet True is the default.
        if node["op"] == "BatchNorm" and node.get("attrs", {}).get("fix_gamma", "True") == "True"
    }
    return [name for name in replicas.weight_names if name in found]


class LocalUpdater:
    """Applies an optimizer to the weights on each device of this worker."""

    def __init__(self, optimizer: mx.optimizer.Optimizer, replicas: Replicas) -> None:
        self._replicas = replicas
        self._optimizer = optimizer
        self._fixed_gammas = _fixed_gammas(replicas)
        # One updater a device: the optimizer counts updates by weight and device.
        count = len(replicas.weights(replicas.weight_names[0]))
        self._updaters = [mx.optimizer.get_updater(optimizer) for _ in range(count)]

    def __call__(self) -> None:
        """Update every weight on every device from its gradient there."""
        # MXNet's engine does not know that BatchNorm with `fix_gamma` sets its gammas to 1 in each
        # forward pass. An optimizer that computes its weight decay apart, such as nadam, could read
        # them before it. The engine knows this write, which comes after the backward pass because
        # it reads the gradient.
        for name in self._fixed_gammas:
            pairs = zip(self._replicas.weights(name), self._replicas.gradients(name), strict=True)
            for weight, gradient in pairs:
                weight[:] = gradient * 0 + 1
        names = self._replicas.weight_names
        weights = [self._replicas.weights(name) for name in names]
        gradients = [self._replicas.gradients(name) for name in names]
        for device, updater in enumerate(self._updaters):
            updater(
                list(range(len(names))),
                [gradient[device] for gradient in gradients],
                [weight[device] for weight in weights],
            )

    def states(self) -> dict[str, mx.nd.NDArray]:
        """Return the optimizer's arrays by weight and position; empty before an update."""
        found: dict[str, mx.nd.NDArray] = {}
        for index, state in sorted(self._updaters[0].states.items()):
            for place, array in _arrays(state):
                found[f"{self._replicas.weight_names[index]}{place}"] = array.copyto(mx.cpu())
        for number in RUNNING_NUMBERS:
            value = getattr(self._optimizer, number, None)
            if value is not None:
                # In the precision of Python's numbers.
                found[f":{number}"] = mx.nd.array([value], dtype="float64")
        return found

    def load_states(self, states: Mapping[str, mx.nd.NDArray]) -> None:
        """Load saved states; KeyError if they belong to another optimizer."""
        if not states:
            return
        rebuilt = {}
        for index, name in enumerate(self._replicas.weight_names):
            weight = self._replicas.weights(name)[0]
            fresh = self._optimizer.create_state_multi_precision(index, weight)
            rebuilt[index] = _replaced(fresh, name, states)
        for updater in self._updaters:
            # Each updater moves its own copy to its device at first use.
            updater.set_states(pickle.dumps(rebuilt))
        for number in RUNNING_NUMBERS:
            # An older checkpoint has fewer of them.
            if hasattr(self._optimizer, number) and f":{number}" in states:
                setattr(self._optimizer, number, float(states[f":{number}"].asscalar()))


def _arrays(state: Any, place: str = "") -> list[tuple[str, mx.nd.NDArray]]:
    """List the arrays of a state, which is an array, None, or a nested tuple of them."""
    if isinstance(state, mx.nd.NDArray):
        return [(place, state)]
    if isinstance(state, tuple | list):
        return [
            found
            for number, part in enumerate(state)
            for found in _arrays(part, f"{place}/{number}")
        ]
    return []


def _replaced(state: Any, place: str, saved: Mapping[str, mx.nd.NDArray]) -> Any:
    if isinstance(state, mx.nd.NDArray):
        return saved[place]
    if isinstance(state, tuple | list):
        parts = [_replaced(part, f"{place}/{number}", saved) for number, part in enumerate(state)]
        return tuple(parts) if isinstance(state, tuple) else parts
    return state

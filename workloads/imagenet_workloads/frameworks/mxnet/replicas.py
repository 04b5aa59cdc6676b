"""The network on this worker's devices: one executor a device, each with a share of the batch.

The strategies read gradients and write weights here. A few buckets hold the gradients of many
weights, because each message has a fixed cost: for a parameter server or Horovod's negotiation, 64
numbers of BatchNorm cost as much as a hundred thousand. Imports MXNet.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mxnet as mx
import numpy as np
from numpy.typing import NDArray

# MXNet's kvstore cuts an array of this many numbers into equal parts, one for each server
# (MXNET_KVSTORE_BIGARRAY_BOUND), so that all have as much to do; a smaller one goes to one of them.
ENOUGH = 1_000_000


class Weight(NamedTuple):
    """A weight's name, its number of elements and their type."""

    name: str
    size: int
    dtype: type


def plan(weights: Iterable[Weight], enough: int = ENOUGH) -> list[list[Weight]]:
    """Divide weights among buckets, each an array of one type; their order stays.

    It is the network's. The backward pass computes the gradients of a bucket one after another,
    and sends those of the last layers while it computes the first. A bucket is full from `enough`
    elements on.
    """
    buckets: list[list[Weight]] = []
    room = 0
    for weight in weights:
        if room <= 0 or weight.dtype != buckets[-1][0].dtype:
            buckets.append([])
            room = enough
        buckets[-1].append(weight)
        room -= weight.size
    return buckets


def allocate(
    weights: Mapping[str, mx.nd.NDArray],
) -> tuple[list[mx.nd.NDArray], dict[str, mx.nd.NDArray]]:
    """Allocate the gradients of weights on their device.

    Return the buckets, one-dimensional, and each weight's gradient as a view of one, in its shape.
    """
    whole, parts = [], {}
    sizes = (Weight(name, math.prod(of.shape), of.dtype) for name, of in weights.items())
    for bucket in plan(sizes):
        first = weights[bucket[0].name]
        numbers = mx.nd.zeros(sum(weight.size for weight in bucket), first.context, first.dtype)
        whole.append(numbers)
        begin = 0
        for name, size, _ in bucket:
            parts[name] = numbers[begin : begin + size].reshape(weights[name].shape)
            begin += size
    return whole, parts


DATA = "data"
LABEL = "softmax_label"

Arrays = dict[str, mx.nd.NDArray]


@dataclass(frozen=True)
class Parameters:
    """The values of a network, on the CPU: weights, and the moving statistics of BatchNorm."""

    arguments: Mapping[str, mx.nd.NDArray]
    auxiliary: Mapping[str, mx.nd.NDArray]


class Replicas:
    """The same weights on every device; names are in the symbol's order."""

    def __init__(
        self,
        symbol: mx.sym.Symbol,
        contexts: Sequence[mx.Context],
        batch_size_per_process: int,
        image_shape: tuple[int, int, int],
        accumulate: bool = False,
    ) -> None:
        """Allocate the executors.

        The symbol ends in a softmax, and takes `data` and `softmax_label`. The image shape is
        channels, height, width. To `accumulate`, backward passes add to the gradients until
        `clear_gradients`.
        """
        self.symbol = symbol
        self.weight_names = [name for name in symbol.list_arguments() if name not in (DATA, LABEL)]
        self.statistic_names = symbol.list_auxiliary_states()
        self.on_cpu = all(context.device_type == "cpu" for context in contexts)
        self._accumulate = accumulate
        edges = np.linspace(0, batch_size_per_process, len(contexts) + 1).astype(int)
        self._shares = [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]
        self._buckets: list[list[mx.nd.NDArray]] = []
        self._executors = [
            self._bind(context, (share.stop - share.start, *image_shape))
            for context, share in zip(contexts, self._shares, strict=True)
        ]

    def _bind(self, context: mx.Context, shape: tuple[int, ...]) -> mx.executor.Executor:
        """Allocate all for one device; the gradients are parts of buckets."""
        inputs = {DATA: shape, LABEL: shape[:1]}
        given, _, moving = self.symbol.infer_shape(**inputs)
        given_types, _, moving_types = self.symbol.infer_type(**dict.fromkeys(inputs, np.float32))
        arguments = {
            name: mx.nd.zeros(shape, context, dtype)
            for name, shape, dtype in zip(
                self.symbol.list_arguments(), given, given_types, strict=True
            )
        }
        statistics = [
            mx.nd.zeros(shape, context, dtype)
            for shape, dtype in zip(moving, moving_types, strict=True)
        ]
        buckets, gradients = allocate({name: arguments[name] for name in self.weight_names})
        self._buckets.append(buckets)
        kept = "add" if self._accumulate else "write"
        wanted = dict.fromkeys(self.weight_names, kept) | dict.fromkeys(inputs, "null")
        return self.symbol.bind(context, arguments, gradients, wanted, statistics)

    def initialize(self, initializer: mx.init.Initializer) -> None:
        """Set the initial value of every weight and statistic, the same on every device."""
        attributes = self.symbol.attr_dict()
        first = self._executors[0]
        for name, array in [*first.arg_dict.items(), *first.aux_dict.items()]:
            if name not in (DATA, LABEL):
                initializer(mx.init.InitDesc(name, attributes.get(name)), array)
        self.load(self.parameters())

    def load(self, parameters: Parameters) -> None:
        """Set every device's values; ValueError if one is missing, or its shape differs."""
        first = self._executors[0]
        for wanted, given in (
            ({name: first.arg_dict[name] for name in self.weight_names}, parameters.arguments),
            (first.aux_dict, parameters.auxiliary),
        ):
            for name, array in wanted.items():
                if name not in given:
                    raise ValueError(f"it has no values for {name}")
                if given[name].shape != array.shape:
                    raise ValueError(f"{name} is {given[name].shape}, not {array.shape}")
        for executor in self._executors:
            executor.copy_params_from(
                dict(parameters.arguments), dict(parameters.auxiliary), allow_extra_params=True
            )

    def parameters(self) -> Parameters:
        """Copy the values of the first device to the CPU."""
        first, cpu = self._executors[0], mx.cpu()
        return Parameters(
            {name: first.arg_dict[name].copyto(cpu) for name in self.weight_names},
            {name: first.aux_dict[name].copyto(cpu) for name in self.statistic_names},
        )

    def forward_backward(self, data: mx.nd.NDArray, label: mx.nd.NDArray) -> None:
        """Start the computation of a training step; return without waiting."""
        for executor, share in zip(self._executors, self._shares, strict=True):
            executor.forward(is_train=True, **{DATA: data[share], LABEL: label[share]})
        for executor in self._executors:
            executor.backward()

    def forward(self, data: mx.nd.NDArray) -> None:
        for executor, share in zip(self._executors, self._shares, strict=True):
            executor.forward(is_train=False, **{DATA: data[share]})

    def probabilities(self) -> NDArray[np.float32]:
        """Wait for the last forward pass; return (batch, classes) in float32."""
        return np.concatenate([executor.outputs[0].asnumpy() for executor in self._executors])

    def weights(self, name: str) -> list[mx.nd.NDArray]:
        return [executor.arg_dict[name] for executor in self._executors]

    def gradients(self, name: str) -> list[mx.nd.NDArray]:
        """Return one weight's gradient on each device, of that device's share."""
        return [executor.grad_dict[name] for executor in self._executors]

    def gradient_buckets(self) -> list[list[mx.nd.NDArray]]:
        """Return all gradients in their buckets: each bucket on each device."""
        return [list(parts) for parts in zip(*self._buckets, strict=True)]

    def gradients_marker(self) -> Callable[[], float | None]:
        """Return a function that waits for the backward pass; it returns when that was over.

        MXNet's engine keeps the order of the operations on an array. So one that reads a gradient
        follows the backward pass, and precedes the exchange that is queued later and overwrites it.
        On GPUs the function returns None at once: the program would not be ahead of them any more.
        """
        if not self.on_cpu:
            return lambda: None
        read = [bucket[:1].copy() for bucket in itertools.chain(*self._buckets)]

        def over() -> float:
            for number in read:
                number.wait_to_read()
            return time.monotonic()

        return over

    def statistics(self, name: str) -> list[mx.nd.NDArray]:
        return [executor.aux_dict[name] for executor in self._executors]

    def read_statistics(self) -> NDArray[np.float32]:
        """Copy the moving statistics of each device, (devices, numbers)."""
        # MXNet 1.9.1 updates the statistics in the backward pass, unknown to its engine. Before the
        # pass has ended, a read returns the values of the previous step.
        mx.nd.waitall()
        copies = [
            [executor.aux_dict[name].asnumpy().ravel() for name in self.statistic_names]
            for executor in self._executors
        ]
        return np.array([np.concatenate([*parts, []]) for parts in copies], np.float32)

    def write_statistics(self, rows: NDArray[np.float32]) -> None:
        """Set the moving statistics of each device, (devices, numbers)."""
        for executor, row in zip(self._executors, rows, strict=True):
            begin = 0
            for name in self.statistic_names:
                array = executor.aux_dict[name]
                array[:] = row[begin : begin + array.size].reshape(array.shape)
                begin += array.size

    def clear_gradients(self) -> None:
        """Start a new sum of gradients if they are accumulated."""
        if self._accumulate:
            for bucket in itertools.chain(*self._buckets):
                bucket[:] = 0

    def watch(self, monitor: mx.mon.Monitor) -> None:
        for executor in self._executors:
            monitor.install(executor)

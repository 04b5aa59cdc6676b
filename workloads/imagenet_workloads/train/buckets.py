"""Puts the gradients of many weights together, so that few messages carry them.

A message costs a parameter server, or Horovod's negotiation, as much for BatchNorm's 64 numbers as
for a hundred thousand, and most weights of a deep network are that small. `replicas` has its
gradients from here, and the strategies send the buckets. Imports MXNet.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import mxnet as mx

# MXNet's kvstore cuts an array of so many numbers into equal parts, one for each server
# (MXNET_KVSTORE_BIGARRAY_BOUND), so that all have as much to do; a smaller one goes to one of them.
ENOUGH = 1_000_000


class Weight(NamedTuple):
    """What has to be known of a weight: its name, how many numbers it has, and their type."""

    name: str
    size: int
    dtype: type


def plan(weights: Iterable[Weight], enough: int = ENOUGH) -> list[list[Weight]]:
    """Divide weights among buckets, each an array of one type; their order stays.

    Args:
        weights: in the network's order, so that the gradients of a bucket are there soon after each
            other, and those of the last layers travel while the first are still being computed.
        enough: a bucket takes no more once it has so many numbers.
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
    """Make room for the gradients of weights, beside them on their device.

    Returns:
        the buckets, one-dimensional; and each weight's gradient, of its shape, a part of one.
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

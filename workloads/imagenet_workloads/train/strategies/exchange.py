"""What the strategies over an MXNet kvstore share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mxnet as mx

from imagenet_workloads.train.options.groups import ClusterOptions
from imagenet_workloads.train.replicas import Replicas


@dataclass(frozen=True)
class Compression:
    """Compression of gradients on their way: `kind` is 2bit, `threshold` its step."""

    kind: str
    threshold: float


def chosen_compression(options: ClusterOptions) -> Compression | None:
    """Give what --gc-type asks for; None for none."""
    if options.gc_type == "none":
        return None
    return Compression(options.gc_type, options.gc_threshold)


def compress(store: mx.kv.KVStore, compression: Compression) -> None:
    """Switch compression on; everything that is pushed from then on is compressed."""
    store.set_gradient_compression({"type": compression.kind, "threshold": compression.threshold})


def gradients_by_key(replicas: Replicas) -> dict[str, list[mx.nd.NDArray]]:
    """Give the buckets of gradients on each device, by their keys in a kvstore."""
    return {f"gradient:{place}": parts for place, parts in enumerate(replicas.gradient_buckets())}


def sum_gradients(store: mx.kv.KVStore, replicas: Replicas) -> None:
    """Replace every gradient by its sum over devices and workers; the store has their keys.

    Push and pull apart, since pushpull does not work with compression. The first layers, which the
    next step needs first, have the highest priority.
    """
    for place, (key, gradients) in enumerate(gradients_by_key(replicas).items()):
        store.push(key, gradients, priority=-place)
        store.pull(key, out=gradients, priority=-place)


def average_over_devices(arrays: Mapping[str, Sequence[mx.nd.NDArray]]) -> None:
    """Set arrays, by name and device, to their average over this worker's devices."""
    for parts in arrays.values():
        mean = mx.nd.add_n(*[part.as_in_context(mx.cpu()) for part in parts]) / len(parts)
        for part in parts:
            mean.copyto(part)

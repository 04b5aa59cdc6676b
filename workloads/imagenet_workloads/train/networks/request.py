"""What a family of networks is asked for, and the ending that all families share."""

from collections.abc import Collection
from dataclasses import dataclass

import mxnet as mx

from imagenet_workloads.errors import InputError


@dataclass(frozen=True)
class Request:
    """One network wanted.

    Attributes:
        network: the family's name.
        num_layers: its depth; families of one depth ignore it.
        classes: outputs.
        image_shape: channels, height, width.
        dtype: precision of weights and activations, float32 or float16.
    """

    network: str
    num_layers: int | None
    classes: int
    image_shape: tuple[int, int, int]
    dtype: str = "float32"


def data_input(request: Request) -> mx.sym.Symbol:
    """Give the variable `data`, cast to the network's precision."""
    data = mx.sym.Variable("data")
    return mx.sym.Cast(data, dtype=request.dtype) if request.dtype != "float32" else data


def with_softmax(scores: mx.sym.Symbol, request: Request) -> mx.sym.Symbol:
    """End a network: probabilities in float32, whose gradient is the cross-entropy's."""
    if request.dtype != "float32":
        scores = mx.sym.Cast(scores, dtype="float32")
    return mx.sym.SoftmaxOutput(scores, name="softmax")


def depth(request: Request, known: Collection[int]) -> int:
    """Check the depth against those a family has.

    Raises:
        InputError: the depth is not one of them.
    """
    if request.num_layers is None or request.num_layers not in known:
        raise InputError(
            f"--num-layers: {request.network} has no depth {request.num_layers} for images of "
            f"{request.image_shape[1]}x{request.image_shape[2]}; "
            f"write one of {', '.join(str(layers) for layers in sorted(known))}"
        )
    return request.num_layers

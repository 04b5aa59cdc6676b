"""The beginning and the ending that all families of MXNet's networks share."""

import mxnet as mx

from imagenet_workloads.train.request import Request, depth

__all__ = ["Request", "data_input", "depth", "with_softmax"]


def data_input(request: Request) -> mx.sym.Symbol:
    """Give the variable `data`, cast to the network's precision."""
    data = mx.sym.Variable("data")
    return mx.sym.Cast(data, dtype=request.dtype) if request.dtype != "float32" else data


def with_softmax(scores: mx.sym.Symbol, request: Request) -> mx.sym.Symbol:
    """End a network: probabilities in float32, whose gradient is the cross-entropy's."""
    if request.dtype != "float32":
        scores = mx.sym.Cast(scores, dtype="float32")
    return mx.sym.SoftmaxOutput(scores, name="softmax")

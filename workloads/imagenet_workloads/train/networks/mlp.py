"""A multilayer perceptron, as in MXNet's example: the smallest network that learns."""

import mxnet as mx

from imagenet_workloads.train.networks.request import Request, data_input, with_softmax


def mlp(request: Request) -> mx.sym.Symbol:
    """Build layers of 128 and 64 on the flattened image."""
    body = mx.sym.Flatten(data_input(request))
    for number, width in ((1, 128), (2, 64)):
        body = mx.sym.FullyConnected(body, num_hidden=width, name=f"fc{number}")
        body = mx.sym.Activation(body, act_type="relu")
    return with_softmax(
        mx.sym.FullyConnected(body, num_hidden=request.classes, name="fc3"), request
    )

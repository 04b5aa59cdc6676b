"""LeNet (LeCun et al. 1998), as in MXNet's example: two convolutions for small images."""

import mxnet as mx

from imagenet_workloads.train.networks.request import Request, data_input, with_softmax


def lenet(request: Request) -> mx.sym.Symbol:
    """Build LeNet; images need about 16 pixels a side."""
    body = data_input(request)
    for number, filters in ((1, 20), (2, 50)):
        body = mx.sym.Convolution(body, kernel=(5, 5), num_filter=filters, name=f"conv{number}")
        body = mx.sym.Activation(body, act_type="tanh")
        body = mx.sym.Pooling(body, pool_type="max", kernel=(2, 2), stride=(2, 2))
    body = mx.sym.FullyConnected(mx.sym.Flatten(body), num_hidden=500, name="fc1")
    body = mx.sym.Activation(body, act_type="tanh")
    return with_softmax(
        mx.sym.FullyConnected(body, num_hidden=request.classes, name="fc2"), request
    )

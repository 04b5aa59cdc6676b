"""Residual networks for images of up to 32 pixels, as `residual` plans them."""

from typing import Any

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.residual import plan
from imagenet_workloads.train.tensorflow.networks import layers
from imagenet_workloads.train.tensorflow.networks.preactivation import unit


def build(request: Request) -> Any:
    """Build the network; depths such as 8, 20, 56, 110 and 164."""
    planned = plan(request)
    inputs = layers.images(request)
    body = layers.normalized(inputs, "bn_data", scale=False)
    body = layers.convolution(body, planned.first, 3, name="conv0")
    for stage, width in enumerate(planned.filters, start=1):
        for number in range(1, planned.units + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            name = f"stage{stage}_unit{number}"
            body = unit(body, width, stride, number == 1, planned.bottleneck, name)
    body = layers.average(layers.relu(layers.normalized(body, "bn1")))
    return layers.model(inputs, layers.dense(body, request.classes, "fc1"), request)

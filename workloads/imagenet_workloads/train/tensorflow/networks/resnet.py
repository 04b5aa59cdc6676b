"""Residual networks with pre-activation for large images, as MXNet's zoo has them (resnetN_v2)."""

from typing import Any

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import layers
from imagenet_workloads.train.tensorflow.networks.preactivation import unit

# Units of each stage, and whether they are bottlenecks.
PLANS = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
}
EPSILON = 1e-5


def build(request: Request) -> Any:
    """Build the network of a depth in PLANS."""
    units, bottleneck = PLANS[request.num_layers or 0]
    inputs = layers.images(request)
    body = layers.normalized(inputs, "bn_data", EPSILON, scale=False, center=False)
    body = layers.convolution(body, 64, 7, 2, name="conv0")
    body = layers.largest(layers.relu(layers.normalized(body, "bn0", EPSILON)), 3, 2, pad=1)
    for stage, count in enumerate(units, start=1):
        width = 64 * 2 ** (stage - 1) * (4 if bottleneck else 1)
        for number in range(1, count + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            name = f"stage{stage}_unit{number}"
            projects = number == 1 and (bottleneck or stage > 1)
            body = unit(body, width, stride, projects, bottleneck, name, EPSILON)
    body = layers.average(layers.relu(layers.normalized(body, "bn1", EPSILON)))
    return layers.model(inputs, layers.dense(body, request.classes, "fc1"), request)

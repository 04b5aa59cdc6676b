"""The families of networks that TensorFlow trains, as Keras models from images to scores.

One function a family, called by `networks.build`. Layers and names are those of MXNet's networks.
Imports TensorFlow.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from imagenet_spec.program.train import Options
from imagenet_workloads.frameworks.tensorflow import layers
from imagenet_workloads.frameworks.tensorflow.weights import named
from imagenet_workloads.train.networks import NetworkRequest, initializer_of, plan_residual


def mlp(request: NetworkRequest) -> Any:
    """Build layers of 128 and 64 on the flattened image."""
    inputs = layers.images(request)
    body = layers.flattened(inputs)
    for number, width in ((1, 128), (2, 64)):
        body = layers.relu(layers.dense(body, width, f"fc{number}"))
    return layers.model(inputs, layers.dense(body, request.classes, "fc3"), request)


def lenet(request: NetworkRequest) -> Any:
    """Build LeNet."""
    inputs = body = layers.images(request)
    for number, filters in ((1, 20), (2, 50)):
        body = layers.convolution(body, filters, 5, pad=0, bias=True, name=f"conv{number}")
        body = layers.largest(tf.keras.activations.tanh(body), 2, 2)
    body = tf.keras.activations.tanh(layers.dense(layers.flattened(body), 500, "fc1"))
    return layers.model(inputs, layers.dense(body, request.classes, "fc2"), request)


# Filters, kernel, stride and padding of each convolution, and whether a pooling follows.
ALEXNET_CONVOLUTIONS = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)


def alexnet(request: NetworkRequest) -> Any:
    """Build the network."""
    inputs = body = layers.images(request)
    for number, (filters, size, stride, pad, pools) in enumerate(ALEXNET_CONVOLUTIONS, start=1):
        body = layers.convolution(body, filters, size, stride, pad, True, f"conv{number}")
        body = layers.relu(body)
        if pools:
            body = layers.largest(body, 3, 2)
    body = layers.flattened(body)
    for name in ("fc6", "fc7"):
        body = layers.dropout(layers.relu(layers.dense(body, 4096, name)))
    return layers.model(inputs, layers.dense(body, request.classes, "fc8"), request)


# Convolutions of each stage.
VGG_PLANS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
VGG_FILTERS = (64, 128, 256, 512, 512)


def vgg(request: NetworkRequest) -> Any:
    """Build the network of a depth in VGG_PLANS."""
    inputs = body = layers.images(request)
    for stage, (count, filters) in enumerate(
        zip(VGG_PLANS[request.num_layers or 0], VGG_FILTERS, strict=True), start=1
    ):
        for number in range(1, count + 1):
            body = layers.convolution(body, filters, 3, bias=True, name=f"conv{stage}_{number}")
            body = layers.relu(body)
        body = layers.largest(body, 2, 2)
    body = layers.flattened(body)
    for name in ("fc6", "fc7"):
        body = layers.dropout(layers.relu(layers.dense(body, 4096, name)))
    return layers.model(inputs, layers.dense(body, request.classes, "fc8"), request)


def unit(
    body: Any,
    width: int,
    stride: int,
    projects: bool,
    bottleneck: bool,
    name: str,
    epsilon: float = 2e-5,
) -> Any:
    """Add a residual: the shortcut is a projection if it `projects`, else the identity."""
    first = layers.relu(layers.normalized(body, f"{name}_bn1", epsilon))
    if bottleneck:
        plan = [(width // 4, 1, 1), (width // 4, 3, stride), (width, 1, 1)]
    else:
        plan = [(width, 3, stride), (width, 3, 1)]
    branch = first
    for number, (filters, size, step) in enumerate(plan, start=1):
        if number > 1:
            branch = layers.relu(layers.normalized(branch, f"{name}_bn{number}", epsilon))
        branch = layers.convolution(branch, filters, size, step, name=f"{name}_conv{number}")
    shortcut = layers.convolution(first, width, 1, stride, name=f"{name}_sc") if projects else body
    return branch + shortcut


# Units of each stage, and whether they are bottlenecks.
RESNET_PLANS = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
}
# BatchNorm's epsilon in MXNet's zoo.
ZOO_EPSILON = 1e-5


def resnet(request: NetworkRequest) -> Any:
    """Build the network of a depth in RESNET_PLANS."""
    units, bottleneck = RESNET_PLANS[request.num_layers or 0]
    inputs = layers.images(request)
    body = layers.normalized(inputs, "bn_data", ZOO_EPSILON, scale=False, center=False)
    body = layers.convolution(body, 64, 7, 2, name="conv0")
    body = layers.largest(layers.relu(layers.normalized(body, "bn0", ZOO_EPSILON)), 3, 2, pad=1)
    for stage, count in enumerate(units, start=1):
        width = 64 * 2 ** (stage - 1) * (4 if bottleneck else 1)
        for number in range(1, count + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            name = f"stage{stage}_unit{number}"
            projects = number == 1 and (bottleneck or stage > 1)
            body = unit(body, width, stride, projects, bottleneck, name, ZOO_EPSILON)
    body = layers.average(layers.relu(layers.normalized(body, "bn1", ZOO_EPSILON)))
    return layers.model(inputs, layers.dense(body, request.classes, "fc1"), request)


def resnet_cifar(request: NetworkRequest) -> Any:
    """Build the network; depths such as 8, 20, 56, 110 and 164."""
    planned = plan_residual(request)
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


# Filters and stride of each separable convolution.
MOBILENET_PLAN = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip


def mobilenet(request: NetworkRequest) -> Any:
    """Build the network."""
    inputs = layers.images(request)
    body = _activated(layers.convolution(inputs, 32, 3, 2, name="conv0"), "bn0")
    for number, (filters, stride) in enumerate(MOBILENET_PLAN, start=1):
        body = layers.padded(body, 1)
        body = tf.keras.layers.DepthwiseConv2D(3, stride, use_bias=False, name=f"conv{number}_dw")(
            body
        )
        body = _activated(body, f"bn{number}_dw")
        body = layers.convolution(body, filters, 1, name=f"conv{number}_pw")
        body = _activated(body, f"bn{number}_pw")
    scores = layers.dense(layers.average(body), request.classes, "fc1")
    return layers.model(inputs, scores, request)


def _activated(body: Any, name: str) -> Any:
    return layers.relu(layers.normalized(body, name, ZOO_EPSILON))


# Filters of the first convolution, growth, and layers of each block.
DENSENET_PLANS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def densenet(request: NetworkRequest) -> Any:
    """Build the network of a depth in DENSENET_PLANS."""
    filters, growth, blocks = DENSENET_PLANS[request.num_layers or 0]
    inputs = layers.images(request)
    body = _activated(layers.convolution(inputs, filters, 7, 2, name="conv0"), "bn0")
    body = layers.largest(body, 3, 2, pad=1)
    for block, count in enumerate(blocks, start=1):
        for number in range(1, count + 1):
            name = f"block{block}_layer{number}"
            branch = _activated(body, f"{name}_bn1")
            branch = layers.convolution(branch, 4 * growth, 1, name=f"{name}_conv1")
            branch = _activated(branch, f"{name}_bn2")
            branch = layers.convolution(branch, growth, 3, name=f"{name}_conv2")
            body = tf.keras.layers.Concatenate()([body, branch])
        filters += growth * count
        if block < len(blocks):
            filters //= 2
            body = _activated(body, f"transition{block}_bn")
            body = layers.convolution(body, filters, 1, name=f"transition{block}_conv")
            body = tf.keras.layers.AveragePooling2D(2, 2, padding="same")(body)
    body = layers.average(_activated(body, "bn1"))
    return layers.model(inputs, layers.dense(body, request.classes, "fc1"), request)


# Squeezed and expanded filters of each fire module; a pooling comes before those marked.
SQUEEZENET_FIRES = (
    (16, 64, True),
    (16, 64, False),
    (32, 128, True),
    (32, 128, False),
    (48, 192, True),
    (48, 192, False),
    (64, 256, False),
    (64, 256, False),
)


def squeezenet(request: NetworkRequest) -> Any:
    """Build the network."""
    inputs = layers.images(request)
    body = layers.relu(layers.convolution(inputs, 64, 3, 2, 0, True, "conv1"))
    for number, (squeezed, expanded, pools) in enumerate(SQUEEZENET_FIRES, start=2):
        if pools:
            # Pooling includes the last pixel of an odd side.
            body = tf.keras.layers.MaxPool2D(3, 2, padding="same")(body)
        name = f"fire{number}"
        body = layers.relu(layers.convolution(body, squeezed, 1, bias=True, name=f"{name}_squeeze"))
        branches = [
            layers.relu(layers.convolution(body, expanded, size, bias=True, name=f"{name}_{size}"))
            for size in (1, 3)
        ]
        body = tf.keras.layers.Concatenate()(branches)
    body = layers.dropout(body)
    body = layers.relu(layers.convolution(body, request.classes, 1, bias=True, name="conv10"))
    return layers.model(inputs, layers.average(body), request)


def inception_v3(request: NetworkRequest) -> Any:
    """Build the network, which is designed for 299 pixels."""
    channels, height, width = request.image_shape
    return tf.keras.applications.InceptionV3(
        weights=None,
        input_shape=(height, width, channels),
        classes=request.classes,
        classifier_activation=None,
    )


_init = tf.keras.initializers


def _scaled(scale: float, mode: str, distribution: str = "untruncated_normal") -> Any:
    return lambda seed: _init.VarianceScaling(scale, mode, distribution, seed=seed)


# MXNet's MSRAPrelu for its default slope, 0.25.
_PRELU = 2.0 / (1.0 + 0.25**2)
MAKERS: Mapping[str, Callable[[int], Any]] = {
    "he": _scaled(2.0, "fan_in"),
    "xavier": _scaled(1.0, "fan_avg", "uniform"),
    "msra": _scaled(_PRELU, "fan_avg"),
    "orthogonal": lambda seed: _init.Orthogonal(1.414, seed=seed),
    "normal": lambda seed: _init.RandomNormal(0.0, 0.01, seed=seed),
    "uniform": lambda seed: _init.RandomUniform(-0.07, 0.07, seed=seed),
    "one": lambda seed: _init.Ones(),
    "zero": lambda seed: _init.Zeros(),
}


def initialize(options: Options, model: Any) -> None:
    """Draw every weight; biases, gammas, betas and statistics keep Keras's values.

    Values are drawn as MXNet's initializers of the same names draw them. They depend on the seed
    alone, so every worker draws the same. `default` is the initializer of MXNet's example for the
    network.
    """
    make = MAKERS[initializer_of(options.model)]
    weights, _ = named(model)
    for place, one in enumerate(weights):
        if one.name.endswith("_weight"):
            initializer = make(options.cluster.seed * 100_003 + place)
            one.variable.assign(initializer(one.variable.shape))

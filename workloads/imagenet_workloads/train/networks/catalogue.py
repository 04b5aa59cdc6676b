"""Chooses a network by family, depth and image size, and checks that it takes the images."""

import difflib

import mxnet as mx

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.networks.lenet import lenet
from imagenet_workloads.train.networks.mlp import mlp
from imagenet_workloads.train.networks.request import Request
from imagenet_workloads.train.networks.resnet_cifar import resnet_cifar
from imagenet_workloads.train.networks.zoo import Builder, deep, one
from imagenet_workloads.train.residual import SMALL_IMAGE

RESNET_DEPTHS = (18, 34, 50, 101, 152)

_resnet_imagenet = deep({layers: f"resnet{layers}_v2" for layers in RESNET_DEPTHS})


def _resnet(request: Request) -> mx.sym.Symbol:
    """Build a pre-activation residual network for small or large images."""
    small = request.image_shape[1] <= SMALL_IMAGE
    return resnet_cifar(request) if small else _resnet_imagenet(request)


FAMILIES: dict[str, Builder] = {
    "alexnet": one("alexnet"),
    "densenet": deep({layers: f"densenet{layers}" for layers in (121, 161, 169, 201)}),
    "inception-v3": one("inceptionv3"),
    "lenet": lenet,
    "mlp": mlp,
    "mobilenet": one("mobilenet1.0"),
    "mobilenet-v2": one("mobilenetv2_1.0"),
    "resnet": _resnet,
    "resnet-v1": deep({layers: f"resnet{layers}_v1" for layers in RESNET_DEPTHS}),
    "squeezenet": one("squeezenet1.1"),
    "vgg": deep({layers: f"vgg{layers}" for layers in (11, 13, 16, 19)}),
    "vgg-bn": deep({layers: f"vgg{layers}_bn" for layers in (11, 13, 16, 19)}),
}


def build(request: Request) -> mx.sym.Symbol:
    """Build the symbol that a request asks for.

    Raises:
        InputError: unknown family or depth, or a network that does not take images of this shape.
    """
    builder = FAMILIES.get(request.network)
    if builder is None:
        near = difflib.get_close_matches(request.network, FAMILIES, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? Known" if near else "write one of"
        raise InputError(
            f"--network: {request.network!r} is unknown; {hint}: {', '.join(sorted(FAMILIES))}"
        )
    symbol = builder(request)
    _check_shape(symbol, request)
    return symbol


def _check_shape(symbol: mx.sym.Symbol, request: Request) -> None:
    try:
        _, outputs, _ = symbol.infer_shape(data=(1, *request.image_shape), softmax_label=(1,))
    except mx.MXNetError:
        outputs = None
    if not outputs or outputs[0] != (1, request.classes):
        shape = ",".join(str(side) for side in request.image_shape)
        raise InputError(
            f"--image-shape: {request.network} does not take images of {shape}; "
            "inception-v3 wants 3,299,299, lenet and mlp small images, the others 3,224,224"
        )

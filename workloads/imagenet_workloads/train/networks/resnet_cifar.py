"""Residual networks for images of up to 32 pixels, as `residual` plans them."""

import mxnet as mx

from imagenet_workloads.train.networks.request import Request, data_input, with_softmax
from imagenet_workloads.train.residual import plan


def resnet_cifar(request: Request) -> mx.sym.Symbol:
    """Build the network; depths such as 8, 20, 56, 110 and 164."""
    planned = plan(request)
    body = mx.sym.BatchNorm(data_input(request), fix_gamma=True, eps=2e-5, name="bn_data")
    body = _convolution(body, planned.first, 3, 1, "conv0")
    for stage, width in enumerate(planned.filters, start=1):
        for unit in range(1, planned.units + 1):
            stride = 2 if stage > 1 and unit == 1 else 1
            name = f"stage{stage}_unit{unit}"
            body = _unit(body, width, stride, unit > 1, planned.bottleneck, name)
    body = _normalized(body, "bn1")
    body = mx.sym.Pooling(body, global_pool=True, kernel=(7, 7), pool_type="avg", name="pool1")
    scores = mx.sym.FullyConnected(mx.sym.Flatten(body), num_hidden=request.classes, name="fc1")
    return with_softmax(scores, request)


def _unit(
    body: mx.sym.Symbol, width: int, stride: int, same: bool, bottleneck: bool, name: str
) -> mx.sym.Symbol:
    """Add a residual: the shortcut is the identity if `same`, else a projection."""
    first = _normalized(body, f"{name}_bn1")
    inner = width // 4 if bottleneck else width
    branch = _convolution(
        first, inner, 1 if bottleneck else 3, 1 if bottleneck else stride, f"{name}_conv1"
    )
    branch = _convolution(
        _normalized(branch, f"{name}_bn2"),
        inner if bottleneck else width,
        3,
        stride if bottleneck else 1,
        f"{name}_conv2",
    )
    if bottleneck:
        branch = _convolution(_normalized(branch, f"{name}_bn3"), width, 1, 1, f"{name}_conv3")
    shortcut = body if same else _convolution(first, width, 1, stride, f"{name}_sc")
    return branch + shortcut


def _normalized(body: mx.sym.Symbol, name: str) -> mx.sym.Symbol:
    normalized = mx.sym.BatchNorm(body, fix_gamma=False, eps=2e-5, momentum=0.9, name=name)
    return mx.sym.Activation(normalized, act_type="relu")


def _convolution(
    body: mx.sym.Symbol, filters: int, size: int, stride: int, name: str
) -> mx.sym.Symbol:
    return mx.sym.Convolution(
        body,
        num_filter=filters,
        kernel=(size, size),
        stride=(stride, stride),
        pad=(size // 2, size // 2),
        no_bias=True,
        name=name,
    )

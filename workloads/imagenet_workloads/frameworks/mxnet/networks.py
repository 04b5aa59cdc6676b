"""The networks that MXNet trains, as symbols that plain MXNet loads. Imports MXNet.

`build` is the only public function. Symbols take `data` and `softmax_label` and end in
SoftmaxOutput `softmax`, as MXNet's Module expects.
"""

import difflib
from collections.abc import Callable, Mapping

import mxnet as mx

from imagenet_spec.program.train import SMALL_IMAGE
from imagenet_workloads.data.batches import PADDING
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.networks import NetworkRequest, depth, plan_residual

Builder = Callable[[NetworkRequest], mx.sym.Symbol]


def data_input(request: NetworkRequest) -> mx.sym.Symbol:
    """Return the variable `data`, cast to the network's precision."""
    data = mx.sym.Variable("data")
    return mx.sym.Cast(data, dtype=request.dtype) if request.dtype != "float32" else data


def with_softmax(scores: mx.sym.Symbol, request: NetworkRequest) -> mx.sym.Symbol:
    """End a network: probabilities in float32, with the gradient of the cross-entropy.

    Images with the label PADDING have no gradient.
    """
    if request.dtype != "float32":
        scores = mx.sym.Cast(scores, dtype="float32")
    # MXNet's alpha is divided among the other classes, ours among all (Szegedy et al. 2016).
    smoothing = request.smoothing * (request.classes - 1) / request.classes
    further = {"smooth_alpha": smoothing} if smoothing else {}
    return mx.sym.SoftmaxOutput(
        scores, name="softmax", use_ignore=True, ignore_label=PADDING, **further
    )


def lenet(request: NetworkRequest) -> mx.sym.Symbol:
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


def mlp(request: NetworkRequest) -> mx.sym.Symbol:
    """Build layers of 128 and 64 on the flattened image."""
    body = mx.sym.Flatten(data_input(request))
    for number, width in ((1, 128), (2, 64)):
        body = mx.sym.FullyConnected(body, num_hidden=width, name=f"fc{number}")
        body = mx.sym.Activation(body, act_type="relu")
    return with_softmax(
        mx.sym.FullyConnected(body, num_hidden=request.classes, name="fc3"), request
    )


def resnet_cifar(request: NetworkRequest) -> mx.sym.Symbol:
    """Build the network; depths such as 8, 20, 56, 110 and 164."""
    planned = plan_residual(request)
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


def one(name: str) -> Builder:
    """Make the builder of a zoo network of one depth."""
    return lambda request: _compose(name, request)


def deep(names: Mapping[int, str]) -> Builder:
    """Make the builder of a zoo family from a map of depth to the zoo's name."""
    return lambda request: _compose(names[depth(request, names)], request)


def _compose(name: str, request: NetworkRequest) -> mx.sym.Symbol:
    # An explicit prefix: the default one counts the networks made so far in this process.
    prefix = name.replace(".", "_") + "_"
    with mx.name.NameManager():
        network = mx.gluon.model_zoo.vision.get_model(name, classes=request.classes, prefix=prefix)
        if request.dtype != "float32":
            network.cast(request.dtype)
        return with_softmax(network(data_input(request)), request)


RESNET_DEPTHS = (18, 34, 50, 101, 152)

_resnet_imagenet = deep({layers: f"resnet{layers}_v2" for layers in RESNET_DEPTHS})


def _resnet(request: NetworkRequest) -> mx.sym.Symbol:
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


def build(request: NetworkRequest) -> mx.sym.Symbol:
    """Build the symbol of a request."""
    builder = FAMILIES.get(request.network)
    if builder is None:
        near = difflib.get_close_matches(request.network, FAMILIES, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? Known" if near else "write one of"
        raise InputError(
            f"--network (model.network): {request.network!r} is unknown; {hint}: "
            f"{', '.join(sorted(FAMILIES))}"
        )
    symbol = builder(request)
    try:
        _, outputs, _ = symbol.infer_shape(data=(1, *request.image_shape), softmax_label=(1,))
    except mx.MXNetError:
        outputs = None
    if not outputs or outputs[0] != (1, request.classes):
        shape = ",".join(str(side) for side in request.image_shape)
        raise InputError(
            f"--image-shape (model.imageShape): {request.network} does not take images of {shape}; "
            "inception-v3 wants 3,299,299, lenet and mlp small images, the others 3,224,224"
        )
    return symbol

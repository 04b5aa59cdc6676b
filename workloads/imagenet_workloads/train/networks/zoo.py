"""Networks of MXNet's Gluon model zoo, composed into symbols with names that never change."""

from collections.abc import Callable, Mapping

import mxnet as mx

from imagenet_workloads.train.networks.request import Request, data_input, depth, with_softmax

Builder = Callable[[Request], mx.sym.Symbol]


def one(name: str) -> Builder:
    """Make the builder of a zoo network that comes in one depth."""
    return lambda request: _compose(name, request)


def deep(names: Mapping[int, str]) -> Builder:
    """Make the builder of a zoo family, from depth to the zoo's name."""
    return lambda request: _compose(names[depth(request, names)], request)


def _compose(name: str, request: Request) -> mx.sym.Symbol:
    # A prefix of our own: the default one counts the networks made so far in this process.
    prefix = name.replace(".", "_") + "_"
    with mx.name.NameManager():
        network = mx.gluon.model_zoo.vision.get_model(name, classes=request.classes, prefix=prefix)
        if request.dtype != "float32":
            network.cast(request.dtype)
        return with_softmax(network(data_input(request)), request)

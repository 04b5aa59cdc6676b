"""Networks: known sizes, stable names, and messages for what there is not."""

import json
import math
import re

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.train.networks import NetworkRequest

CIFAR, SMALLER, IMAGENET = (3, 32, 32), (3, 64, 64), (3, 224, 224)


def weights(symbol: mx.sym.Symbol, shape: tuple[int, int, int]) -> int:
    sizes, _, _ = symbol.infer_shape(data=(1, *shape), softmax_label=(1,))
    return sum(
        math.prod(size)
        for name, size in zip(symbol.list_arguments(), sizes, strict=True)
        if name not in ("data", "softmax_label")
    )


# In millions, from the papers' tables or the networks' usual implementations.
@pytest.mark.parametrize(
    ("network", "layers", "shape", "classes", "millions"),
    [
        ("mlp", None, (1, 28, 28), 10, 0.109),
        ("lenet", None, (1, 28, 28), 10, 0.431),
        ("alexnet", None, IMAGENET, 1000, 61.1),
        ("resnet", 8, CIFAR, 10, 0.078),
        ("resnet", 20, CIFAR, 10, 0.27),
        ("resnet", 56, (3, 28, 28), 10, 0.85),
        ("resnet", 110, CIFAR, 10, 1.73),
        ("resnet", 164, CIFAR, 10, 1.70),
        ("resnet", 18, IMAGENET, 1000, 11.7),
        ("resnet", 34, IMAGENET, 1000, 21.8),
        ("resnet", 50, IMAGENET, 1000, 25.6),
        ("resnet", 101, IMAGENET, 1000, 44.6),
        ("resnet", 152, IMAGENET, 1000, 60.2),
        ("resnet-v1", 50, IMAGENET, 1000, 25.6),
        ("inception-v3", None, (3, 299, 299), 1000, 23.8),
        ("vgg", 16, IMAGENET, 1000, 138.4),
        ("vgg-bn", 11, IMAGENET, 1000, 132.9),
        ("densenet", 121, IMAGENET, 1000, 8.0),
        ("squeezenet", None, IMAGENET, 1000, 1.24),
        ("mobilenet", None, IMAGENET, 1000, 4.2),
        ("mobilenet-v2", None, IMAGENET, 1000, 3.5),
    ],
)
def test_networks_have_their_known_size(
    network: str, layers: int | None, shape: tuple[int, int, int], classes: int, millions: float
) -> None:
    symbol = build(NetworkRequest(network, layers, classes, shape))
    assert weights(symbol, shape) / 1e6 == pytest.approx(millions, rel=0.02)
    assert symbol.list_outputs() == ["softmax_output"]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("network", "layers", "shape"),
    [
        ("mlp", None, (1, 28, 28)),
        ("lenet", None, (3, 28, 28)),
        ("alexnet", None, SMALLER),
        *(("resnet", layers, (3, 28, 28)) for layers in (8, 20, 56, 110)),
        *(("resnet", layers, SMALLER) for layers in (18, 34, 50, 101, 152)),
        ("resnet-v1", 18, SMALLER),
        ("inception-v3", None, (3, 299, 299)),
        ("vgg", 11, SMALLER),
        ("mobilenet", None, SMALLER),
        ("mobilenet-v2", None, SMALLER),
    ],
)
def test_networks_learn_from_every_image(
    network: str, layers: int | None, shape: tuple[int, int, int]
) -> None:
    made = Replicas(build(NetworkRequest(network, layers, 7, shape)), [mx.cpu()], 2, shape)
    made.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    images = np.random.default_rng(0).normal(size=(2, *shape))
    made.forward_backward(mx.nd.array(images), mx.nd.array([1, 5]))
    found = made.probabilities()
    assert found.shape == (2, 7)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-4)
    assert not np.allclose(found[0], found[1], rtol=1e-4)
    kernels = [name for name in made.weight_names if name.endswith("weight")]
    for name in (kernels[0], kernels[-1]):
        gradient = made.gradients(name)[0].asnumpy()
        assert np.isfinite(gradient).all()
        assert gradient.any()


def test_names_do_not_depend_on_what_was_built_before() -> None:
    first = build(NetworkRequest("resnet", 18, 10, IMAGENET))
    build(NetworkRequest("alexnet", None, 10, IMAGENET))
    assert build(NetworkRequest("resnet", 18, 10, IMAGENET)).tojson() == first.tojson()
    assert json.loads(first.tojson())["heads"]


@pytest.mark.parametrize("network", ["lenet", "resnet"])
def test_half_precision_ends_in_single(network: str) -> None:
    symbol = build(NetworkRequest(network, 18, 10, IMAGENET, "float16"))
    arguments, outputs, _ = symbol.infer_type(data="float32", softmax_label="float32")
    kinds = dict(zip(symbol.list_arguments(), arguments, strict=True))
    kernels = {kind.__name__ for name, kind in kinds.items() if name.endswith("weight")}
    assert kernels == {"float16"}
    assert outputs[0].__name__ == "float32"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (NetworkRequest("lenett", None, 10, CIFAR), "'lenett' is unknown; did you mean lenet"),
        (NetworkRequest("resnet50", None, 10, IMAGENET), "did you mean resnet"),
        (NetworkRequest("zzz", None, 10, CIFAR), "'zzz' is unknown; write one of: alexnet"),
        (NetworkRequest("resnet", 21, 10, CIFAR), "no depth 21 for images of up to 32 pixels"),
        (NetworkRequest("resnet", None, 10, CIFAR), "write 6n+2"),
        (NetworkRequest("resnet", 20, 10, IMAGENET), "write one of 18, 34, 50, 101, 152"),
        (NetworkRequest("vgg", None, 10, IMAGENET), "write one of 11, 13, 16, 19"),
        (NetworkRequest("inception-v3", None, 10, IMAGENET), "does not take images of 3,224,224"),
        (NetworkRequest("lenet", None, 10, (3, 8, 8)), "does not take images of 3,8,8"),
    ],
)
def test_what_there_is_not(request_: NetworkRequest, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        build(request_)

"""Every network that the resource allows is one that the workloads can build."""

import math
from collections.abc import Mapping

import pytest

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.program.train import SMALL_IMAGE, ModelOptions
from imagenet_spec.resource.frameworks import NETWORKS
from imagenet_spec.resource.networks import Network, own_side
from imagenet_spec.rules import broken
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet import networks
from imagenet_workloads.frameworks.pytorch import networks as pytorch
from imagenet_workloads.frameworks.tensorflow import networks as keras
from imagenet_workloads.train.networks import Family, NetworkRequest

CLASSES = 10
INPUTS = ("data", "softmax_label")
ALLOWED: list[tuple[str, int | None, int]] = [
    (name, layers, max(family.smallest, SMALL_IMAGE + 1 if name == "resnet" else 1))
    for name, family in FRAMEWORKS["MXNet"].networks.items()
    for layers in family.depths or (None,)
]
ALLOWED += [("resnet", layers, SMALL_IMAGE) for layers in (8, 20, 56, 110, 164)]


def built(name: str, layers: int | None, side: int) -> None:
    """Build as a worker would that is given these options and the defaults of the others."""
    depth = ModelOptions().num_layers if layers is None else layers
    networks.build(NetworkRequest(name, depth, CLASSES, (3, side, side)))


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        (name, layers)
        for name, family in NETWORKS.items()
        for layers in family.depths or (None,)
        if family.millions and name in FRAMEWORKS["MXNet"].networks
    ],
)
def test_a_network_has_the_weights_that_a_worker_gets_memory_for(
    name: str, layers: int | None
) -> None:
    family, side = NETWORKS[name], own_side(name)
    depth = ModelOptions().num_layers if layers is None else layers
    symbol = networks.build(NetworkRequest(name, depth, 1000, (3, side, side)))
    shapes, _, _ = symbol.infer_shape(data=(1, 3, side, side))
    given = zip(symbol.list_arguments(), shapes, strict=True)
    weights = sum(math.prod(shape) for argument, shape in given if argument not in INPUTS)
    place = 0 if layers is None else family.depths.index(layers)
    assert family.millions[place] == math.ceil(weights / 10**6)


def test_the_families_are_the_same_on_both_sides() -> None:
    assert set(FRAMEWORKS["MXNet"].networks) == set(networks.FAMILIES)


@pytest.mark.parametrize(
    ("framework", "families"),
    [("TensorFlow", keras.FAMILIES), ("PyTorch", pytorch.FAMILIES)],
)
def test_a_framework_has_the_networks_that_the_resource_allows_it(
    framework: str, families: Mapping[str, Family]
) -> None:
    """In their depths, from images of the same size on; the tests with each library build them."""
    assert set(families) == set(FRAMEWORKS[framework].networks)
    for name, family in families.items():
        assert family.depths == NETWORKS[name].depths
        assert family.smallest <= max(NETWORKS[name].smallest, 1)


def test_the_networks_with_a_fixed_input_are_the_same_on_both_sides() -> None:
    """PyTorch alone trains on several sizes."""
    for name, family in pytorch.FAMILIES.items():
        assert family.has_fixed_input == NETWORKS[name].has_fixed_input, name


@pytest.mark.parametrize(("name", "layers", "side"), ALLOWED)
def test_what_the_resource_allows_mxnet_is_built(name: str, layers: int | None, side: int) -> None:
    model = Network.model_validate(
        {"network": name, "numLayers": layers, "imageShape": [3, side, side]}
    )
    assert list(broken(model.rules, model.to_manifest())) == []
    built(name, layers, side)


@pytest.mark.parametrize(
    ("name", "layers", "side"),
    [("resnet", 20, 224), ("resnet", 21, 32), ("resnet", 51, 28), ("vgg", 12, 224)],
)
def test_what_cannot_be_built_is_not_allowed(name: str, layers: int, side: int) -> None:
    model = Network.model_validate(
        {"network": name, "numLayers": layers, "imageShape": [3, side, side]}
    )
    assert list(broken(model.rules, model.to_manifest()))
    with pytest.raises(InputError):
        built(name, layers, side)

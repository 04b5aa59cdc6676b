"""Every network is built, takes images of its smallest size, and has torchvision's weights."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torchvision import models

from imagenet_spec.program.train import INITIALIZERS
from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks.pytorch import networks
from imagenet_workloads.frameworks.pytorch.families import MAKERS, initialize
from imagenet_workloads.train.networks import NetworkRequest

CLASSES = 7
# The shallowest of each family: a deeper one has more of the same layers.
SMALLEST = [
    (name, min(family.depths, default=None), max(family.smallest, 33))
    for name, family in networks.FAMILIES.items()
]
SMALLEST += [("resnet", 8, 28), ("resnet", 164, 28)]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("name", "layers", "side"), SMALLEST)
def test_it_scores_images(name: str, layers: int | None, side: int, channels: int) -> None:
    # On this device tensors have shapes, but no values.
    with torch.device("meta"):
        request = NetworkRequest(name, layers, CLASSES, (channels, side, side))
        scores = networks.build(request).eval()(torch.zeros(2, channels, side, side))
    assert scores.shape == (2, CLASSES)


@pytest.mark.parametrize(("name", "layers", "side"), SMALLEST)
def test_it_takes_images_of_another_size_unless_its_input_is_fixed(
    name: str, layers: int | None, side: int
) -> None:
    with torch.device("meta"):
        network = networks.build(NetworkRequest(name, layers, CLASSES, (3, side, side))).eval()
        has_fixed_input = networks.FAMILIES[name].has_fixed_input
        with pytest.raises(RuntimeError) if has_fixed_input else nullcontext():
            assert network(torch.zeros(2, 3, 2 * side, 2 * side)).shape == (2, CLASSES)


@pytest.mark.parametrize("depth", networks.FAMILIES["resnet"].depths)
def test_every_depth_of_resnet_has_the_names_of_torchvision(depth: int) -> None:
    with torch.device("meta"):
        network = networks.build(NetworkRequest("resnet", depth, 1000, (3, 224, 224)))
        of_torchvision = models.get_model(f"resnet{depth}")
    assert network.state_dict().keys() == of_torchvision.state_dict().keys()


def test_resnet_9_is_the_network_of_its_source() -> None:
    with torch.device("meta"):
        network = networks.build(NetworkRequest("resnet-9", None, 10, (3, 32, 32)))
        convolutions = [one for one in network.modules() if isinstance(one, nn.Conv2d)]
        before_pooling = network[:4](torch.zeros(2, 3, 32, 32))
    # 8 convolutions of 3x3 pixels and a linear layer.
    assert [one.out_channels for one in convolutions] == [64, 128, 128, 128, 256, 512, 512, 512]
    assert before_pooling.shape == (2, 512, 4, 4)
    assert sum(weight.numel() for weight in network.parameters()) == 6_573_120


def test_values_depend_on_the_seed_alone() -> None:
    first, again, other = (built("--network", "lenet", "--seed", seed) for seed in "001")
    assert torch.equal(first.conv1.weight, again.conv1.weight)
    assert not torch.equal(first.conv1.weight, other.conv1.weight)
    assert not first.fc1.bias.any()


def built(*arguments: str) -> nn.Module:
    options = parse(["--framework", "PyTorch", *arguments])
    network: nn.Module = networks.build(NetworkRequest("lenet", None, CLASSES, (3, 28, 28)))
    initialize(options, network)
    return network


@pytest.mark.parametrize("name", MAKERS)
def test_every_initializer_draws(name: str) -> None:
    # What each would give 50 * 20 * 5 * 5 weights of fans 500 and 1,250.
    deviations = {
        **{"he": (2 / 500) ** 0.5, "xavier": (2 / 1750) ** 0.5, "msra": (1.8824 / 875) ** 0.5},
        **{"normal": 0.01, "uniform": 0.14 / 12**0.5, "one": 0.0, "zero": 0.0},
        "orthogonal": 1.414 / 500**0.5,
    }
    option = "default" if name == "he" else name
    weight = built("--initializer", option).conv2.weight
    assert weight.std().item() == pytest.approx(deviations[name], rel=0.05)


def test_every_initializer_of_the_command_line_is_there() -> None:
    assert MAKERS.keys() - {"he"} == set(INITIALIZERS) - {"default"}

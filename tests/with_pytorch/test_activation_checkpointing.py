"""Activation checkpointing: the same gradients and statistics, with less that is kept for them."""

import copy
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import networks
from imagenet_workloads.frameworks.pytorch.compilation import CompiledNetwork
from imagenet_workloads.frameworks.pytorch.families import checkpoint_activations
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from support.pytorch_learners import CLASSES, RESNET, batch, differing, learner, trained
from support.sentences import says

SWITCH = ("--activation-checkpointing", "1")


class Step(NamedTuple):
    """A forward and a backward pass of a network."""

    network: nn.Module
    saved_bytes: int
    random_state: torch.Tensor


def step(network: nn.Module, side: int, checkpointing: bool, compiled: bool = False) -> Step:
    """Make a step of a network in training, whose values are drawn by a seed."""
    backward_context = checkpoint_activations(network, "network") if checkpointing else nullcontext
    module = CompiledNetwork(network, is_required=True) if compiled else network
    torch.manual_seed(0)
    images, labels = torch.randn(2, 3, side, side), torch.tensor([1, 3])
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = functional.cross_entropy(module(images), labels)
    with backward_context():
        loss.backward()
    return Step(network, sum(saved.values()), torch.get_rng_state())


def values(network: nn.Module) -> dict[str, torch.Tensor]:
    gradients = {f"{name}.grad": weight.grad for name, weight in network.named_parameters()}
    return gradients | dict(network.named_buffers())


@pytest.mark.parametrize(
    ("name", "depth", "side"),
    [
        ("resnet", 8, 28),
        # The layers to each of its poolings.
        ("lenet", None, 28),
        # Its blocks append to the lists that they give to their layers.
        ("densenet", 121, 32),
        ("inception-v3", None, 75),
        # With dropout.
        ("squeezenet", None, 48),
        ("timm/test_resnet", None, 32),
    ],
)
def test_a_network_has_the_same_gradients_and_statistics(
    name: str, depth: int | None, side: int
) -> None:
    torch.manual_seed(0)
    network = networks.build(NetworkRequest(name, depth, CLASSES, (3, side, side))).train()
    expected = step(copy.deepcopy(network), side, False)
    found = step(network, side, True)
    torch.testing.assert_close(values(found.network), values(expected.network), rtol=0, atol=0)
    assert torch.equal(found.random_state, expected.random_state)
    assert found.saved_bytes < 0.7 * expected.saved_bytes


@pytest.mark.parametrize(
    "more", [("--dtype", "bfloat16"), ("--ema-decay", "0.9")], ids=["bfloat16", "average"]
)
def test_a_training_stays_the_same(more: tuple[str, ...]) -> None:
    made = [learner(RESNET, *more), learner(RESNET, *more, *SWITCH)]
    for one in made:
        # Gradients of two batches are added up.
        one.train(batch(7), False, Flags())
        trained(2, one)
    assert differing(made[1], made[0]) == []
    averages = [one.average.network.state_dict() for one in made if one.average is not None]
    for average in averages[1:]:
        assert all(value.equal(averages[0][name]) for name, value in average.items())


def test_a_compiled_network_has_the_same_gradients_and_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    network = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(8 * 3 * 3, CLASSES)),
    )
    expected = step(copy.deepcopy(network), 8, False)
    found = step(network, 8, True, compiled=True)
    assert list(tmp_path.rglob("*.so"))
    torch.testing.assert_close(values(found.network), values(expected.network))
    assert found.saved_bytes < expected.saved_bytes


def test_a_network_that_timm_cannot_do_this_with_is_one_error() -> None:
    with torch.device("meta"):
        network = networks.build(NetworkRequest("timm/dla34", None, CLASSES, (3, 32, 32)))
    with pytest.raises(InputError, match=says("timm does not have it for dla34", "leave it out")):
        checkpoint_activations(network, "timm/dla34")

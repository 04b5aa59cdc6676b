"""Weights of --pretrained: what fits is loaded, a head of other classes is new."""

import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision import models

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import networks, pretrained
from imagenet_workloads.train.networks import NetworkRequest
from support.digit_datasets import prepare_digits
from support.pytorch_learners import RESNET, SHAPE, differing, learner, trained
from support.training_cluster import train

OTHER = NetworkRequest("resnet", 8, 7, SHAPE)


def test_an_exported_model_is_loaded_but_for_its_head(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = trained(1, learner())
    first.export(tmp_path / "model", 1)
    file = tmp_path / "model-0001.safetensors"
    same, other = learner(), learner(OTHER)
    head = other.network.fc1.weight.clone()
    caplog.set_level(logging.INFO)
    pretrained.load(file, same.network, RESNET)
    assert differing(same, first) == []
    assert "is new" not in caplog.text
    pretrained.load(file, other.network, OTHER)
    assert differing(other, first) == ["fc1.weight", "fc1.bias"]
    assert torch.equal(other.network.fc1.weight, head)
    assert "fc1 is new, for 7 classes: model-0001.safetensors has 4" in caplog.text


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_file_of_torchvision_is_loaded(tmp_path: Path, wrapped: bool) -> None:
    of_torchvision = models.resnet18()
    # As its older files are.
    state = {k: v for k, v in of_torchvision.state_dict().items() if "num_batches" not in k}
    torch.save({"model": state, "epoch": 3} if wrapped else state, tmp_path / "resnet18.pth")
    request = NetworkRequest("resnet", 18, 10, (3, 64, 64))
    network = networks.build(request)
    pretrained.load(tmp_path / "resnet18.pth", network, request)
    assert torch.equal(network.conv1.weight, of_torchvision.conv1.weight)
    assert network.fc.weight.shape == (10, 512)


class Own(nn.Module):  # type: ignore[misc]
    """A class that unpickling would import."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Own(), "is no file of tensors alone"),
        ([1, 2], "has no state_dict"),
        ({"epoch": 3}, "has no state_dict"),
        (models.resnet18().state_dict(), r"it lacks bn_data.running_mean, .* and \d+ more; it has"),
    ],
)
def test_what_does_not_fit_is_one_error(tmp_path: Path, content: object, message: str) -> None:
    file = tmp_path / "weights.pth"
    torch.save(content, file)
    made = learner()
    with pytest.raises(InputError, match=message) as caught:
        pretrained.load(file, made.network, RESNET)
    assert "\n" not in str(caught.value)
    assert differing(made, learner()) == []


def test_other_shapes_are_named(tmp_path: Path) -> None:
    state = {name: one.contiguous() for name, one in learner().network.state_dict().items()}
    state["conv0.weight"] = torch.zeros(16, 1, 3, 3)
    save_file(state, tmp_path / "w.safetensors")
    message = "does not fit resnet: it has conv0.weight as 16x1x3x3 instead of 16x3x3x3$"
    with pytest.raises(InputError, match=message):
        pretrained.load(tmp_path / "w.safetensors", learner().network, RESNET)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        pretrained.load(tmp_path / "gone.pth", learner().network, RESNET)


def test_the_program_starts_from_it(tmp_path: Path) -> None:
    made = learner(NetworkRequest("mlp", None, 4, SHAPE))
    made.export(tmp_path / "model", 1)
    digits = prepare_digits(tmp_path, "RecordIO")
    arguments = ["--framework", "PyTorch", "--dataset", str(digits), "--output", str(tmp_path)]
    arguments += ["--network", "mlp", "--image-shape", "3,28,28", "--num-epochs", "1"]
    ended = train([*arguments, "--pretrained", str(tmp_path / "model-0001.safetensors")])
    assert ended.returncode == 0, ended.stderr
    log = (tmp_path / "attempts/r0/train.log").read_text() + ended.stderr
    assert "fc3 is new, for 9 classes: model-0001.safetensors has 4" in log

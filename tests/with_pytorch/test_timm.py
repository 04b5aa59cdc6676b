"""Networks of timm: built with random values for any images, exported and loaded again."""

from pathlib import Path

import pytest
import timm
import torch

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import networks
from imagenet_workloads.frameworks.pytorch.checkpoint_files import load_network
from imagenet_workloads.train.networks import NetworkRequest
from support.pytorch_learners import SHAPE, differing, learner, trained


@pytest.mark.parametrize("name", ["resnet10t", "vit_tiny_patch16_224"])
def test_it_scores_images_of_any_size(name: str) -> None:
    with torch.device("meta"):
        request = NetworkRequest(f"timm/{name}", 50, 7, (1, 64, 48))
        scores = networks.build(request).eval()(torch.zeros(2, 1, 64, 48))
    assert scores.shape == (2, 7)


def test_it_keeps_timms_values_and_is_loaded_by_its_name(tmp_path: Path) -> None:
    request = NetworkRequest("timm/test_resnet", None, 4, SHAPE)
    torch.manual_seed(0)
    made = learner(request)
    torch.manual_seed(0)
    expected = timm.create_model("test_resnet", num_classes=4)
    values = made.network.state_dict()
    assert all(torch.equal(one, values[name]) for name, one in expected.state_dict().items())
    trained(1, made).export(tmp_path / "model", 1)
    network, found = load_network(tmp_path / "model-0001.safetensors")
    assert found.network == "timm/test_resnet"
    other = learner(request)
    other.network.load_state_dict(network.state_dict())
    assert differing(other, made) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet10", "timm has no .resnet10.; did you mean resnet10t or "),
        ("hf-hub:someone/model", "timm has no 'hf-hub:someone/model'"),
        ("zzzzzzzz", r"timm has no 'zzzzzzzz'; see timm.list_models\(\)"),
        ("nest_tiny", "timm cannot build nest_tiny for images of 3x1x1: .* evenly"),
    ],
)
def test_what_timm_lacks_is_one_error(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message), torch.device("meta"):
        networks.build(NetworkRequest(f"timm/{name}", None, 7, (3, 1, 1)))

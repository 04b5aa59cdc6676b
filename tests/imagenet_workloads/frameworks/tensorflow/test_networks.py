"""Which networks TensorFlow has; that they are built is tested with TensorFlow."""

import ast
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow import networks
from imagenet_workloads.train.networks import NetworkRequest


def test_every_family_has_its_builder() -> None:
    source = Path(networks.__file__).with_name("families.py").read_text()
    functions = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    assert {family.builder for family in networks.FAMILIES.values()} <= functions


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            NetworkRequest("resnext", 50, 10, (3, 224, 224)),
            "did you mean resnet.*TensorFlow has: alexnet",
        ),
        (
            NetworkRequest("zzz", None, 10, (3, 224, 224)),
            "'zzz' is unknown; TensorFlow has: alexnet",
        ),
        (
            NetworkRequest("vgg", 12, 10, (3, 224, 224)),
            "vgg has no depth 12.*write one of 11, 13, 16, 19",
        ),
        (NetworkRequest("lenet", None, 10, (3, 8, 8)), "lenet takes images of at least 16 pixels"),
        (NetworkRequest("resnet", 20, 10, (3, 224, 224)), "resnet has no depth 20"),
    ],
)
def test_what_cannot_be_built_is_told_without_tensorflow(
    request_: NetworkRequest, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        networks.build(request_)

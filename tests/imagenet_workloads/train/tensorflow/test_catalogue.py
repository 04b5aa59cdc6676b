"""Which networks TensorFlow has; that they are built is tested with TensorFlow."""

import importlib.util

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import catalogue


def test_every_family_is_a_module() -> None:
    for family in catalogue.FAMILIES.values():
        name = f"imagenet_workloads.train.tensorflow.networks.{family.module}"
        assert importlib.util.find_spec(name) is not None


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("resnext", 50, 10, (3, 224, 224)), "did you mean resnet.*TensorFlow has: alexnet"),
        (Request("zzz", None, 10, (3, 224, 224)), "'zzz' is unknown; TensorFlow has: alexnet"),
        (Request("vgg", 12, 10, (3, 224, 224)), "vgg has no depth 12.*write one of 11, 13, 16, 19"),
        (Request("lenet", None, 10, (3, 8, 8)), "lenet takes images of at least 16 pixels"),
        (Request("resnet", 20, 10, (3, 224, 224)), "resnet has no depth 20"),
    ],
)
def test_what_cannot_be_built_is_told_without_tensorflow(request_: Request, message: str) -> None:
    with pytest.raises(InputError, match=message):
        catalogue.build(request_)

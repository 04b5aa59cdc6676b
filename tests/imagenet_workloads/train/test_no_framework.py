"""The process of these tests refuses frameworks, so that `train` cannot import one unseen."""

import importlib
import pkgutil

import pytest

from imagenet_workloads import train


@pytest.mark.parametrize(
    "module",
    ["mxnet", "tensorflow", "horovod.mxnet", "imagenet_workloads.frameworks.mxnet.framework"],
)
def test_a_framework_cannot_be_imported(module: str) -> None:
    with pytest.raises(AssertionError, match="the tests of train may not import"):
        importlib.import_module(module)


@pytest.mark.parametrize(
    "module", [found.name for found in pkgutil.walk_packages(train.__path__, f"{train.__name__}.")]
)
def test_every_module_can(module: str) -> None:
    assert importlib.import_module(module).__doc__

"""What MXNet trains under augmentation."""

from pathlib import Path

import mxnet as mx
import pytest

from imagenet_workloads.frameworks.mxnet.data import choose
from support.augmented import CHANGES, check_augmented
from support.tiny_dataset import write_dataset


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("digits"), train=400, validation=6).folder


@pytest.mark.parametrize("change", CHANGES)
def test_images_change_and_labels_stay(digits: Path, tmp_path: Path, change: str) -> None:
    check_augmented(
        lambda options: choose(options, 0, 1, 1, tmp_path),
        mx.nd.NDArray.asnumpy,
        ["--dataset", str(digits)],
        CHANGES[change],
    )

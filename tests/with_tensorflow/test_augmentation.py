"""What TensorFlow trains under augmentation."""

from pathlib import Path

import numpy as np
import pytest

from imagenet_workloads.frameworks.tensorflow.data import choose
from support.augmented import CHANGES, check_augmented
from support.tiny_records import write_dataset


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("digits"), 400, 6, shards=1)


@pytest.mark.parametrize("change", CHANGES)
def test_images_change_and_labels_stay(digits: Path, change: str) -> None:
    check_augmented(
        lambda options: choose(options, 0, 1, 1),
        np.asarray,
        ["--framework", "TensorFlow", "--dataset", str(digits)],
        CHANGES[change],
    )

"""`imagenet-predict` sees of a picture what the validation of PyTorch saw."""

from pathlib import Path

import torch

from imagenet_workloads.frameworks.pytorch.data import choose
from support.one_transform import assert_predict_sees_the_same


def test_predict_sees_what_validation_saw(tmp_path: Path) -> None:
    cpu = torch.device("cpu")
    assert_predict_sees_the_same(
        tmp_path, lambda options: choose(options, 0, 1, 1, cpu), "--framework", "PyTorch"
    )

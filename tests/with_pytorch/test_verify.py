"""`imagenet-verify` with PyTorch: an honest training verifies, a changed one does not."""

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from imagenet_workloads.frameworks.pytorch.checkpoint_files import WEIGHTS
from support.digit_datasets import TRAIN, prepare_digits
from support.verified import check_verify


def change(checkpoint: Path) -> None:
    """Change one weight a little."""
    tensors = load_file(checkpoint / WEIGHTS)
    tensors["fc3.bias"][0] += 1e-4
    save_file(tensors, checkpoint / WEIGHTS)


def test_training_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits = prepare_digits(tmp_path / "digits", "RecordIO")
    batches = -(-TRAIN // 128)
    common = ["--framework", "PyTorch", "--dataset", str(digits), "--batch-size", "128"]
    check_verify([*common, "--network", "mlp"], tmp_path / "out", batches, change, capsys)

"""`imagenet-verify` with TensorFlow: an honest training verifies, a changed one does not."""

from pathlib import Path

import pytest

from imagenet_workloads.frameworks.tensorflow.checkpoint_files import WEIGHTS
from imagenet_workloads.frameworks.tensorflow.weights import load_arrays, save_arrays
from support.tiny_records import write_dataset
from support.verified import check_verify


def change(checkpoint: Path) -> None:
    arrays = load_arrays(checkpoint / WEIGHTS)
    arrays["fc3_bias"][0] += 1e-4
    save_arrays(checkpoint / WEIGHTS, arrays)


def test_training_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits = write_dataset(tmp_path / "digits", 96, 0, shards=1)
    common = ["--framework", "TensorFlow", "--dataset", str(digits), "--batch-size", "8"]
    check_verify([*common, "--network", "mlp"], tmp_path / "out", 12, change, capsys)

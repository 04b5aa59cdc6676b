"""`imagenet-verify` with PyTorch: an honest training verifies, a changed one does not."""

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from imagenet_workloads.frameworks.pytorch.checkpoint_files import WEIGHTS
from support.digit_datasets import TRAIN, prepare_digits
from support.verified import check_verify


def change(checkpoint: Path) -> None:
    tensors = load_file(checkpoint / WEIGHTS)
    last = max(name for name in tensors if name.startswith("fc") and name.endswith("bias"))
    tensors[last][0] += 1e-4
    save_file(tensors, checkpoint / WEIGHTS)


@pytest.mark.parametrize(
    "network",
    [
        ("mlp",),
        (
            *("resnet", "--num-layers", "8"),
            *("--image-sizes", "0:12,1:16", "--validation-size", "20"),
        ),
    ],
    ids=["one size", "a size an epoch"],
)
def test_training_again(
    network: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digits = prepare_digits(tmp_path / "digits", "RecordIO")
    batches = -(-TRAIN // 128)
    common = ["--framework", "PyTorch", "--dataset", str(digits), "--batch-size", "128"]
    check_verify([*common, "--network", *network], tmp_path / "out", batches, change, capsys)

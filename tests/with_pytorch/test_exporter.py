"""`imagenet-export` of a model of PyTorch, in every format."""

import json
from pathlib import Path

import pytest
import torch

from imagenet_workloads.commands import export
from imagenet_workloads.frameworks.pytorch import description
from support.pytorch_learners import SHAPE, learner, trained


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attempt")
    result = {
        "framework": "PyTorch",
        "model": trained(1, learner()).export(folder / "model", 1),
        "inputs": {"imageShape": SHAPE, "mean": [0] * 3, "std": [255] * 3, "resize": 0},
    }
    (folder / "result.json").write_text(json.dumps(result))
    return folder


@pytest.mark.parametrize("format", description.DESCRIPTION.exports)
def test_a_file_computes_the_same(
    attempt: Path, tmp_path: Path, format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    arguments = [str(attempt), "--format", format, "--into", str(file), "--check"]
    assert export.main(arguments) == 0
    captured = capfd.readouterr()
    first, last = captured.out.splitlines()
    assert first == f"wrote {file}, {file.stat().st_size} bytes"
    assert "16 synthetic images" in last
    assert float(last.split()[-1]) < 1e-5
    assert captured.err == ""


def test_torchscript_has_its_default_name_and_takes_any_number_of_images(attempt: Path) -> None:
    assert export.main([str(attempt), "--format", "torchscript"]) == 0
    network = torch.jit.load(attempt / "model.pt")
    assert network(torch.zeros(1, *SHAPE)).shape == (1, 4)
    assert network(torch.zeros(5, *SHAPE)).shape == (5, 4)

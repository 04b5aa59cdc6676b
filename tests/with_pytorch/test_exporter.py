"""`imagenet-export` of a model of PyTorch, in every format."""

import json
from pathlib import Path

import pytest
import torch

from imagenet_workloads.commands import export, predict
from imagenet_workloads.frameworks.pytorch import description
from support.exported_files import assert_alike, exported, noise, predictions
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


@pytest.mark.parametrize("format", description.DESCRIPTION.exports)
def test_a_file_predicts_as_the_model_does(
    attempt: Path, tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where only result.json is left beside it."""
    images, file = noise(tmp_path), exported(attempt, format, tmp_path)
    expected = predictions(capsys, attempt, images)
    (tmp_path / "result.json").write_bytes((attempt / "result.json").read_bytes())
    assert_alike(predictions(capsys, tmp_path, images, "--from", str(file)), expected)


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        ("pt", "file.pt: cannot be loaded as TorchScript: "),
        ("safetensors", "file.safetensors: not a file of safetensors: "),
    ],
)
def test_a_damaged_file_is_one_message(
    attempt: Path, tmp_path: Path, suffix: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"file.{suffix}"
    file.write_bytes(b"\x00" * 20)
    assert predict.main(["--model", str(attempt), "--from", str(file), "x.png"]) == 3
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("format", description.DESCRIPTION.exports)
def test_a_file_of_other_images_is_refused(
    attempt: Path, tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = exported(attempt, format, tmp_path)
    result = json.loads((attempt / "result.json").read_text())
    result["inputs"]["imageShape"] = [1, *SHAPE[1:]]
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert predict.main(["--model", str(tmp_path), "--from", str(file), "x.png"]) == 3
    assert file.name in capsys.readouterr().err

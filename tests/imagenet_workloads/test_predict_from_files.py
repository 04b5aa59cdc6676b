"""`imagenet-predict --from`: prediction with an exported file of MXNet's, and what is refused."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from imagenet_workloads.commands import predict
from imagenet_workloads.frameworks.mxnet import networks
from imagenet_workloads.train.networks import NetworkRequest
from support.exported_files import assert_alike, drawn, exported, noise, predictions

SHAPE = (3, 28, 28)
INPUTS = {"imageShape": list(SHAPE), "mean": [120.0] * 3, "std": [60.0] * 3, "resize": 32}


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the result of a training, whose model has random values."""
    folder = tmp_path_factory.mktemp("attempt")
    symbol = networks.build(NetworkRequest("resnet", 8, 10, SHAPE))
    symbol.save(str(folder / "model-symbol.json"))
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=(1, *SHAPE))
    random = np.random.default_rng(0)
    arrays = {
        f"{kind}:{name}": mx.nd.array(drawn(random, name, array.shape))
        for kind, found in (("arg", executor.arg_dict), ("aux", executor.aux_dict))
        for name, array in found.items()
        if name not in ("data", "softmax_label")
    }
    mx.nd.save(str(folder / "model-0001.params"), arrays)
    result: dict[str, Any] = {
        "model": {"symbol": "model-symbol.json", "params": "model-0001.params"},
        "inputs": INPUTS,
    }
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "labels.json").write_text(json.dumps([f"digit {one}" for one in range(10)]))
    return folder


def without(attempt: Path, folder: Path, *suffixes: str) -> Path:
    """Copy a result without its files of some suffixes."""
    for file in attempt.iterdir():
        if not file.name.endswith(suffixes):
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.parametrize(
    ("format", "unneeded"),
    [("safetensors", (".params",)), ("onnx", (".params", "-symbol.json"))],
)
def test_a_file_predicts_as_the_model_does(
    attempt: Path,
    tmp_path: Path,
    format: str,
    unneeded: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where only the labels and result.json are left beside it."""
    images, file = noise(tmp_path), exported(attempt, format, tmp_path)
    expected = predictions(capsys, attempt, images)
    assert set(expected[images[0]]) == {f"digit {one}" for one in range(10)}
    folder = tmp_path / "copy"
    folder.mkdir()
    copy = without(attempt, folder, *unneeded)
    assert_alike(predictions(capsys, copy, images, "--from", str(file)), expected)


def test_the_values_are_the_files(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images, file = noise(tmp_path), exported(attempt, "safetensors", tmp_path)
    arrays = load_file(file)
    save_file({**arrays, "arg:fc1_weight": arrays["arg:fc1_weight"] * 0}, file)
    found = predictions(capsys, attempt, images, "--from", str(file))
    shares = np.exp(arrays["arg:fc1_bias"]) / np.exp(arrays["arg:fc1_bias"]).sum()
    assert list(found[images[0]].values()) == pytest.approx(sorted(shares, reverse=True))


def test_onnx_needs_no_framework(
    attempt: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """PyTorch is not here. Its files have scores; these have probabilities, and stay so."""
    images, file = noise(tmp_path), exported(attempt, "onnx", tmp_path)
    expected = predictions(capsys, attempt, images)
    result = {"framework": "PyTorch", "model": {"weights": "gone"}, "inputs": INPUTS}
    (tmp_path / "result.json").write_text(json.dumps(result))
    (tmp_path / "labels.json").write_bytes((attempt / "labels.json").read_bytes())
    assert_alike(predictions(capsys, tmp_path, images, "--from", str(file)), expected)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert predict.main(["--model", str(tmp_path), "--from", str(file), images[0]]) == 3
    assert "the Python package onnxruntime is not installed in" in capsys.readouterr().err


def damaged(attempt: Path, folder: Path, suffix: str) -> Path:
    file = folder / f"damaged.{suffix}"
    file.write_bytes(b"\x00" * 20)
    return file


def of_another_network(attempt: Path, folder: Path, suffix: str) -> Path:
    file = exported(attempt, "safetensors", folder)
    arrays = load_file(file)
    del arrays["arg:fc1_weight"]
    save_file(arrays, file)
    return file


def missing(attempt: Path, folder: Path, suffix: str) -> Path:
    return folder / f"missing.{suffix}"


@pytest.mark.parametrize(
    ("make", "suffix", "message"),
    [
        (damaged, "onnx", "damaged.onnx: cannot be loaded as ONNX: "),
        (damaged, "safetensors", "model-symbol.json with damaged.safetensors: cannot be loaded: "),
        (of_another_network, "", "digits.safetensors: holds no values for fc1_weight"),
        (missing, "onnx", "missing.onnx: cannot be read: No such file or directory"),
        (missing, "safetensors", "missing.safetensors: cannot be read: No such file or directory"),
        (missing, "pt", "MXNet has no torchscript here; it has safetensors and onnx"),
        (missing, "params", "its suffix names no format; known are .safetensors, .pt, .onnx"),
    ],
    # Functions have no name that every process of the test run agrees on.
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_loaded_is_one_message(
    attempt: Path,
    tmp_path: Path,
    make: Callable[[Path, Path, str], Path],
    suffix: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = make(attempt, tmp_path, suffix)
    arguments = ["--model", str(attempt), "--from", str(file), *noise(tmp_path)]
    assert predict.main(arguments) == 3
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_a_file_of_other_images_is_refused(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = exported(attempt, "onnx", tmp_path)
    result = json.loads((attempt / "result.json").read_text())
    result["inputs"]["imageShape"] = [3, 20, 28]
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert predict.main(["--model", str(tmp_path), "--from", str(file), "x.png"]) == 3
    assert "cannot be loaded as ONNX: " in capsys.readouterr().err

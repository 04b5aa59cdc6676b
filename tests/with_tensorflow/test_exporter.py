"""`imagenet-export` of a model of TensorFlow, and `imagenet-predict` with its file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imagenet_workloads.commands import export, predict
from imagenet_workloads.frameworks.tensorflow import networks
from imagenet_workloads.frameworks.tensorflow.checkpoint_files import export as export_model
from imagenet_workloads.frameworks.tensorflow.weights import assign, named, read_values
from imagenet_workloads.train.networks import NetworkRequest
from support.exported_files import assert_alike, drawn, exported, noise, predictions

# Environments made before `make install-tensorflow` installed it do not have it.
safetensors = pytest.importorskip("safetensors.numpy")

CLASSES, SHAPE = 4, (3, 64, 64)


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a result of mobilenet, which has every layout of weights."""
    return random_result(tmp_path_factory.mktemp("attempt"), "mobilenet")


def random_result(folder: Path, network: str) -> Path:
    name, _, layers = network.partition("-")
    model = networks.build(NetworkRequest(name, int(layers) if layers else None, CLASSES, SHAPE))
    weights, statistics = named(model)
    variables, random = [*weights, *statistics], np.random.default_rng(0)
    values = read_values(variables)
    assign(variables, {name: drawn(random, name, one.shape) for name, one in values.items()})
    result = {
        "framework": "TensorFlow",
        "model": export_model(folder / "model", model, 1),
        "inputs": {"imageShape": SHAPE, "mean": [0] * 3, "std": [255] * 3, "resize": 0},
    }
    (folder / "result.json").write_text(json.dumps(result))
    return folder


@pytest.mark.parametrize("network", ["mobilenet", "alexnet"])
def test_a_file_computes_the_same(
    tmp_path: Path, network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of a network with dropout."""
    attempt = random_result(tmp_path, network)
    assert export.main([str(attempt), "--format", "safetensors", "--check"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "16 synthetic images" in last
    assert float(last.split()[-1]) == 0


# Dropout; shortcuts and padded pooling. The next test has depthwise convolutions.
@pytest.mark.parametrize("network", ["squeezenet", "resnet-18"])
def test_a_file_of_onnx_computes_the_same(
    tmp_path: Path, network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("tf2onnx")
    attempt, file = random_result(tmp_path, network), tmp_path / "m.onnx"
    assert export.main([str(attempt), "--format", "onnx", "--into", str(file), "--check"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "16 synthetic images" in last
    assert float(last.split()[-1]) < 1e-5
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    assert dimensions(model.graph.input) == {"data": ["images", *SHAPE]}
    assert dimensions(model.graph.output) == {"probabilities": ["images", CLASSES]}


def test_a_file_of_onnx_predicts_as_the_model_did(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tf2onnx")
    images, file = noise(tmp_path), exported(attempt, "onnx", tmp_path)
    expected = predictions(capsys, attempt, images)
    assert_alike(predictions(capsys, attempt, images, "--from", str(file)), expected)


def dimensions(values: Any) -> dict[str, list[str | int]]:
    return {
        one.name: [size.dim_param or size.dim_value for size in one.type.tensor_type.shape.dim]
        for one in values
    }


def test_a_file_predicts_as_the_model_did(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The values are those of the file, and not of the SavedModel beside it."""
    images, file = noise(tmp_path), exported(attempt, "safetensors", tmp_path)
    expected = predictions(capsys, attempt, images)
    assert_alike(predictions(capsys, attempt, images, "--from", str(file)), expected)
    arrays = safetensors.load_file(file)
    safetensors.save_file({name: array * 0 for name, array in arrays.items()}, file)
    found = predictions(capsys, attempt, images, "--from", str(file))
    assert all(set(one.values()) == {1 / CLASSES} for one in found.values())


def test_a_file_of_another_network_is_one_message(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = exported(attempt, "safetensors", tmp_path)
    arrays = safetensors.load_file(file)
    del arrays["conv0_weight"]
    safetensors.save_file(arrays, file)
    arguments = ["--model", str(attempt), "--from", str(file), "x.png"]
    assert predict.main(arguments) == 3
    assert "it has no values for conv0_weight" in capsys.readouterr().err
    file.write_bytes(b"\x00" * 20)
    assert predict.main(arguments) == 3
    error = capsys.readouterr().err
    assert f"{file}: cannot be loaded into {attempt / 'model'}: " in error
    assert len(error.splitlines()) == 1

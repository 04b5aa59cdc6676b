"""`imagenet-export` of a model of MXNet, and what every framework refuses."""

import json
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

from imagenet_workloads.commands import export
from imagenet_workloads.frameworks.mxnet import networks
from imagenet_workloads.train.networks import NetworkRequest
from support.digit_datasets import prepare_digits

SHAPE = (3, 28, 28)


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a volume with a dataset, and a job whose model has random values."""
    dataset = prepare_digits(tmp_path_factory.mktemp("digits"), "RecordIO")
    volume = dataset.parents[1]
    attempt = volume / "jobs/digits-0123/attempts/r0"
    attempt.mkdir(parents=True)
    # BatchNorm, pooling, a convolution and a dense layer.
    symbol = networks.build(NetworkRequest("resnet", 8, 10, SHAPE))
    symbol.save(str(attempt / "model-symbol.json"))
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=(1, *SHAPE))
    random = np.random.default_rng(0)
    arrays = {
        f"{kind}:{name}": mx.nd.array(random.uniform(0.5, 1, array.shape) / max(array.size, 9))
        for kind, found in (("arg", executor.arg_dict), ("aux", executor.aux_dict))
        for name, array in found.items()
        if name not in ("data", "softmax_label")
    }
    mx.nd.save(str(attempt / "model-0001.params"), arrays)
    result: dict[str, Any] = {
        "model": {"symbol": "model-symbol.json", "params": "model-0001.params"},
        "inputs": {"imageShape": list(SHAPE), "mean": [0] * 3, "std": [255] * 3, "resize": 0},
        "dataset": {"key": dataset.name},
    }
    (attempt / "result.json").write_text(json.dumps(result))
    return volume


def difference(output: str, images: str) -> float:
    last = output.splitlines()[-1]
    assert f"16 {images} images" in last
    return float(last.split()[-1])


def test_onnx_computes_the_same(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = volume / "jobs/digits-0123"
    assert export.main([str(job), "--format", "onnx", "--check"]) == 0
    assert difference(capsys.readouterr().out, "validation") < 1e-6
    graph = onnx.load(job / "attempts/r0/model.onnx").graph
    # Any number of images, and no weights among the inputs.
    assert [one.name for one in graph.input] == ["data"]
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "images"


def test_safetensors_has_the_arrays_by_their_names(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attempt, file = volume / "jobs/digits-0123/attempts/r0", tmp_path / "m.safetensors"
    arguments = [str(attempt), "--format", "safetensors", "--into", str(file), "--check"]
    assert export.main(arguments) == 0
    assert difference(capsys.readouterr().out, "validation") == 0
    expected = mx.nd.load(str(attempt / "model-0001.params"))
    found = load_file(file)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name].asnumpy()) for name in found)


def test_without_a_dataset_images_are_synthetic(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a copy of the result elsewhere, too."""
    for file in (volume / "jobs/digits-0123/attempts/r0").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert export.main([str(tmp_path), "--format", "safetensors", "--check"]) == 0
    assert difference(capsys.readouterr().out, "synthetic") == 0
    dataset = next((volume / "datasets").iterdir())
    arguments = [str(tmp_path), "--format", "safetensors", "--check", "--dataset", str(dataset)]
    assert export.main(arguments) == 0
    assert difference(capsys.readouterr().out, "validation") == 0


@pytest.mark.parametrize(
    ("framework", "message"),
    [
        ("MXNet", "MXNet has no torchscript here; it has safetensors and onnx"),
        ("TensorFlow", "TensorFlow has no torchscript here; it has safetensors and onnx"),
        ("Caffe", "result.json: framework is 'Caffe'; known are MXNet, TensorFlow, PyTorch"),
    ],
)
def test_what_a_framework_does_not_write_is_refused(
    tmp_path: Path, framework: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"framework": framework}))
    assert export.main([str(tmp_path), "--format", "torchscript"]) == 3
    assert message in capsys.readouterr().err


def test_a_model_of_tensorflow_becomes_safetensors_without_tensorflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.savez(tmp_path / "model-0001.npz", fc1_weight=weight)
    result = {
        "framework": "TensorFlow",
        "model": {"savedModel": "model", "weights": "model-0001.npz"},
        "inputs": {"imageShape": [3, 2, 2], "mean": [0] * 3, "std": [1] * 3, "resize": 0},
    }
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert export.main([str(tmp_path), "--format", "safetensors"]) == 0
    np.testing.assert_equal(load_file(tmp_path / "model.safetensors"), {"fc1_weight": weight})
    assert export.main([str(tmp_path), "--format", "safetensors", "--check"]) == 3
    assert "the Python package tensorflow is not installed in" in capsys.readouterr().err


def test_a_difference_is_a_failure(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imagenet_workloads.exporting.TOLERANCE", -1)
    attempt = str(volume / "jobs/digits-0123/attempts/r0")
    arguments = [attempt, "--format", "onnx", "--into", str(tmp_path / "m.onnx")]
    assert export.main(arguments) == 0
    assert export.main([*arguments, "--check"]) == 1

"""`imagenet-predict`, and a reader that knows result.json alone, see what validation saw.

The network is sensitive to what a skipped step changes: without the steps of preparation, most
pictures get another class. `tests/with_tensorflow` and `tests/with_pytorch` repeat the comparison.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from imagenet_workloads.commands import export
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.exported_files import OnnxModel
from imagenet_workloads.frameworks.mxnet.data import choose
from imagenet_workloads.prediction import prepare
from support.codecs import needs_libturbojpeg
from support.one_transform import CASES, packed, validation
from support.pages import blocks
from support.pod_subset import REPOSITORY

Reader = Callable[[bytes, list[dict[str, Any]]], NDArray[np.float32]]


@pytest.fixture(scope="module")
def reader() -> Reader:
    """Return the function of the page, which uses cv2 and NumPy alone."""
    page = (REPOSITORY / "docs/running-locally.md").read_text(encoding="utf-8")
    (code,) = blocks(page, "### Predict without this project")
    assert len(code) <= 40, "it is short enough to be typed"
    names: dict[str, Any] = {}
    exec("\n".join(code), names)
    found: Reader = names["prepare"]
    return found


def write_result(folder: Path, inputs: Inputs) -> None:
    """Leave a network as a training does: random weights, scores by shapes of 1/14 of the edge."""
    _, height, width = inputs.image_shape
    cells = mx.sym.Pooling(
        mx.sym.Variable("data"),
        kernel=(height // 14,) * 2,
        stride=(height // 14,) * 2,
        pool_type="avg",
    )
    shapes = mx.sym.Convolution(cells, num_filter=16, kernel=(3, 3), stride=(2, 2), name="shapes")
    scores = mx.sym.FullyConnected(
        mx.sym.Flatten(mx.sym.relu(shapes)), num_hidden=10, no_bias=True, name="fc"
    )
    network = mx.sym.SoftmaxOutput(scores, name="softmax")
    network.save(str(folder / "model-symbol.json"))
    executor = network.simple_bind(mx.cpu(), grad_req="null", data=(1, 3, height, width))
    random = np.random.default_rng(height)
    arrays = {
        f"arg:{name}": mx.nd.array(
            random.normal(size=array.shape) / max(np.prod(array.shape[1:]), 1) ** 0.5
        )
        for name, array in executor.arg_dict.items()
        if name not in ("data", "softmax_label")
    }
    mx.nd.save(str(folder / "model-0001.params"), arrays)
    model = {"symbol": "model-symbol.json", "params": "model-0001.params"}
    (folder / "result.json").write_text(json.dumps({"model": model, "inputs": inputs.document()}))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("codec", "enough"),
    [
        ("opencv", 0.99),
        # It resizes colours at their own resolution, which a program without libturbojpeg cannot.
        pytest.param("planes", 0.98, marks=needs_libturbojpeg),
    ],
)
def test_the_class_of_a_picture_is_that_of_validation(
    tmp_path: Path,
    reader: Reader,
    codec: str,
    enough: float,
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = same = same_by_onnx = small = same_without_packing = 0
    for edge, resize in CASES:
        folder = tmp_path / f"{edge}-{resize}"
        case = packed(folder, edge, resize, codec)
        inputs, shown = validation(case, edge, lambda options: choose(options, 0, 1, 1, tmp_path))
        write_result(folder, inputs)
        checked = ["--check", "--dataset", str(case.folder)]
        assert export.main([str(folder), "--format", "onnx", *checked]) == 0
        assert "validation images" in capsys.readouterr().out
        model = OnnxModel(folder / "model.onnx", (3, edge, edge))
        contents = {path: path.read_bytes() for path in shown}
        steps = json.loads((folder / "result.json").read_text())["inputs"]["steps"]

        def classes(images: Iterable[Any]) -> Any:
            return model.outputs(np.concatenate(list(images))).argmax(axis=1)  # noqa: B023

        expected = classes(shown.values())
        # Equal bits have equal classes.
        same += sum(
            np.array_equal(prepare(content, str(path), inputs), shown[path])
            for path, content in contents.items()
        )
        by_reader = classes(reader(one, steps) for one in contents.values())
        same_by_onnx += int((by_reader == expected).sum())
        if resize is not None and edge < 224:
            left_out = [step for step in steps if step.get("by") != "packing"]
            without = classes(reader(one, left_out) for one in contents.values())
            small += len(without)
            same_without_packing += int((without == expected).sum())
        count += len(contents)
    assert count == 1000
    assert same == count
    assert same_by_onnx >= enough * count
    assert same_without_packing < 0.9 * small, "the network must tell them apart"

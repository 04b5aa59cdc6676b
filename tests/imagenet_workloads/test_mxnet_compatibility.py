"""MXNet 1.9.1 on current Python, NumPy and ONNX: in our programs and in those of users."""

import json
import subprocess
import sys
from pathlib import Path

import mxnet as mx
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from mxnet import recordio
from mxnet.contrib.onnx import import_model

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def run(program: str) -> object:
    """Run a program that imports nothing of ours, and return what it prints as JSON."""
    command = [sys.executable, "-c", program]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda nd: nd.zeros((np.int64(2), np.int32(3))), np.zeros((2, 3))),
        (lambda nd: nd.zeros([np.int64(2), 3]), np.zeros((2, 3))),
        (lambda nd: nd.reshape(nd.array(ARRAY), shape=(np.int64(-1),)), ARRAY.reshape(-1)),
        (lambda nd: nd.slice(nd.array(ARRAY), (np.int8(0), None), (np.uint8(1), 2)), ARRAY[:1, :2]),
        (lambda nd: nd.sum(nd.array(ARRAY), axis=(np.int64(1),)), ARRAY.sum(1)),
        (lambda nd: nd.array(ARRAY) * np.float64(0.5), ARRAY * 0.5),
        (lambda nd: nd.clip(nd.array(ARRAY), np.float32(1), np.int64(4)), ARRAY.clip(1, 4)),
    ],
    ids=["shape", "list", "reshape", "slice", "axis", "scalar", "clip"],
)
def test_numbers_of_numpy_are_parameters(made: object, expected: npt.NDArray[np.float32]) -> None:
    assert callable(made)
    np.testing.assert_array_equal(made(mx.nd).asnumpy(), expected)


def test_numbers_of_numpy_are_parameters_of_symbols() -> None:
    drawn = mx.sym.Reshape(mx.sym.Variable("data"), shape=(np.int64(3), np.int32(2)))
    assert drawn.infer_shape(data=(2, 3))[1] == [(3, 2)]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("alltrue", ([1, 0],), False),
        ("sometrue", ([1, 0],), True),
        ("product", ([2, 3],), 6),
        ("trapz", ([1, 2, 3],), 4),
        ("msort", ([3, 1, 2],), [1, 2, 3]),
        ("round_", ([1.4, 1.6],), [1, 2]),
        ("in1d", ([1, 2], [2]), [False, True]),
    ],
)
def test_mxnet_has_the_functions_that_numpy_removed(
    name: str, arguments: tuple[list[float], ...], expected: object
) -> None:
    with mx.util.np_shape(), mx.util.np_array():
        result = getattr(mx.np, name)(*(mx.np.array(argument) for argument in arguments))
        assert np.asarray(result).tolist() == expected


def test_a_record_has_several_labels() -> None:
    packed = recordio.pack(recordio.IRHeader(0, [1.0, 2.0], 7, 0), b"image")
    header, image = recordio.unpack(packed)
    assert (header.label.tolist(), header.id, image) == ([1.0, 2.0], 7, b"image")


def test_a_network_is_read_from_onnx(tmp_path: Path) -> None:
    weight = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    shapes = {"x": [1, 3], "weight": [2, 3], "bias": [2], "y": [1, 2]}
    values = {
        name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    }
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "weight", "bias"], ["y"], transB=1)],
        "graph",
        [values[name] for name in ("x", "weight", "bias")],
        [values["y"]],
        [
            onnx.numpy_helper.from_array(weight, "weight"),
            onnx.numpy_helper.from_array(np.zeros(2, np.float32), "bias"),
        ],
    )
    opset = onnx.helper.make_opsetid("", 8)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[opset], ir_version=4), tmp_path / "a.onnx"
    )

    symbol, arguments, _ = import_model(str(tmp_path / "a.onnx"))

    bound = symbol.bind(mx.cpu(), {**arguments, "x": mx.nd.ones((1, 3))})
    assert bound.forward()[0].asnumpy().tolist() == [[6, 15]]


def test_a_user_s_own_program_imports_mxnet_and_its_numpy_stays_as_it_is() -> None:
    program = """
import json, sys
import numpy
import mxnet as mx
from mxnet import gluon
net = gluon.nn.Dense(1)
net.initialize()
print(json.dumps({
    "shape": net(mx.nd.ones((2, 3))).shape,
    "numpy": sys.modules["numpy"] is numpy and not hasattr(numpy, "NINF"),
    "distutils": "distutils.version" in sys.modules,
    "training": "imagenet_workloads.train" in sys.modules,
}))
"""
    assert run(program) == {"shape": [2, 1], "numpy": True, "distutils": False, "training": False}


def test_other_programs_pay_nothing() -> None:
    program = """
import json, sys
import json.decoder, html
print(json.dumps([name for name in sys.modules if name.startswith(("imagenet", "numpy"))]))
"""
    assert run(program) == []


def test_who_looks_for_mxnet_imports_no_numpy() -> None:
    program = """
import importlib.util, json, sys
found = importlib.util.find_spec("mxnet")
print(json.dumps([found.origin.endswith("mxnet/__init__.py"), "numpy" in sys.modules]))
"""
    assert run(program) == [True, False]

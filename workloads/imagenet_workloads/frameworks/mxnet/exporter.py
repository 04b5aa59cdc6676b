"""Writes a model of MXNet as safetensors or ONNX. Imports MXNet.

A file of safetensors has the arrays of PREFIX-NNNN.params by their names there (`arg:NAME`,
`aux:NAME`), and loads without MXNet:

    arrays = safetensors.numpy.load_file("model.safetensors")

A file of ONNX takes normalised images, (images, channels, height, width), and returns
probabilities. MXNet's exporter, mx2onnx, knows opset 13, and imports `onnx.mapping`, which onnx
1.19 no longer has. Its own entry point, `mx.onnx.export_model`, claims the newest opset of the
installed onnx instead. So this module calls what is behind it.
"""

from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt

from imagenet_workloads.exported_files import PROBABILITIES, OnnxModel
from imagenet_workloads.fields import Fields
from imagenet_workloads.frameworks.mxnet import predictor

Images = npt.NDArray[np.float32]
_OPSET, _IR_VERSION = 13, 8


class SymbolExporter:
    """A symbol with its arrays; implements `Exporter`."""

    def __init__(self, symbol: Path, params: Path, image_shape: tuple[int, int, int]) -> None:
        self._symbol, self._params, self._shape = symbol, params, image_shape

    def write(self, format: str, path: Path) -> None:
        if format == "onnx":
            path.write_bytes(self._onnx())
        else:
            # MXNet is used without it, too.
            from safetensors.numpy import save

            arrays = {name: array.asnumpy() for name, array in self._arrays().items()}
            path.write_bytes(save(arrays, {"framework": "MXNet"}))

    def outputs(self, images: Images) -> npt.NDArray[Any]:
        return _probabilities(predictor.bind(self._symbol, self._params, images.shape), images)

    def outputs_of(self, format: str, path: Path, images: Images) -> npt.NDArray[Any]:
        if format == "onnx":
            return OnnxModel(path, self._shape).outputs(images)
        executor = predictor.bind(self._symbol, path, images.shape, predictor.read_safetensors)
        return _probabilities(executor, images)

    def _arrays(self) -> dict[str, Any]:
        arrays: dict[str, Any] = mx.nd.load(str(self._params))
        return arrays

    def _onnx(self) -> bytes:
        import onnx
        from mxnet.onnx.mx2onnx._export_onnx import MXNetGraph

        # SoftmaxOutput has an input for labels, whose name mx2onnx would guess.
        scores = mx.sym.load(str(self._symbol)).get_children()[0]
        symbol = mx.sym.softmax(scores, axis=1, name=PROBABILITIES)
        values = {name[4:]: array for name, array in self._arrays().items()}
        graph = MXNetGraph().create_onnx_graph_proto(
            symbol,
            values,
            [(1, *self._shape)],
            [onnx.TensorProto.FLOAT],
            opset_version=_OPSET,
            dynamic=True,
            dynamic_input_shapes=[("images", *self._shape)],
        )
        # Weights, which mx2onnx repeats among the inputs, and arrays that nothing uses.
        used = {name for node in graph.node for name in node.input}
        arrays = [array for array in graph.initializer if array.name in used]
        names = {array.name for array in graph.initializer}
        inputs = [one for one in graph.input if one.name not in names]
        del graph.initializer[:], graph.input[:]
        graph.initializer.extend(arrays)
        graph.input.extend(inputs)
        opset = onnx.helper.make_opsetid("", _OPSET)
        model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)
        onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


def _probabilities(executor: Any, images: Images) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = executor.forward(is_train=False, data=mx.nd.array(images))[
        0
    ].asnumpy()
    return found


def load(folder: Path, files: Fields, image_shape: tuple[int, int, int]) -> SymbolExporter:
    """Load the files that result.json names."""
    predictor.load(folder, files, image_shape)
    symbol, params = (folder / files.file_name(name) for name in ("symbol", "params"))
    return SymbolExporter(symbol, params, image_shape)

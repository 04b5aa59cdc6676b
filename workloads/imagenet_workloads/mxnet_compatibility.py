"""Lets MXNet 1.9.1, its last release, run on current Python, NumPy and ONNX.

MXNet's own modules, and no others, get what has been removed since: their built-in functions are a
copy, as the documentation of `exec` allows, in which `import numpy` gives a stand-in. No other
module and no entry of `sys.modules` changes.

Our programs find MXNet through `frameworks.mxnet.description`, and a user's own program through
imagenet_workloads.pth, which Python reads when it starts. So this module stands outside
`frameworks`, whose import loads all descriptions, and imports NumPy only when MXNet is executed:
schedulers and servers merely look for MXNet's files.
"""

import builtins
import functools
import re
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType, SimpleNamespace
from typing import Any

# NumPy 2 writes the numbers in a tuple as `np.int64(3)` and `np.True_`.
_NUMBER = re.compile(r"np\.(?:\w+\(([^()]*)\)|(True|False)_)")
# Which modules write an operator's parameters as text, for MXNet's library.
_WRITERS = ("mxnet._ctypes.ndarray", "mxnet._ctypes.symbol")


def find_spec(fullname: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
    """Find a module of MXNet on the path, to be loaded by `MxnetLoader`; None for any other."""
    if fullname.partition(".")[0] != "mxnet":
        return None
    spec = PathFinder.find_spec(fullname, path)
    if spec is not None and isinstance(spec.loader, SourceFileLoader):
        spec.loader = MxnetLoader(fullname, spec.loader.path)
    return spec


class MxnetLoader(SourceFileLoader):
    """Loads a module of MXNet with built-in functions for it alone."""

    def get_code(self, fullname: str) -> Any:
        """Return the module's code; `recordio` calls a method that NumPy 2.3 removed."""
        if fullname != "mxnet.recordio":
            return super().get_code(fullname)
        source = (self.get_source(fullname) or "").replace(".tostring()", ".tobytes()")
        return compile(source, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        own = {"__import__": _import, **({"str": _text} if module.__name__ in _WRITERS else {})}
        module.__dict__["__builtins__"] = {**vars(builtins), **own}
        super().exec_module(module)


def _import(name: str, *others: Any, **named: Any) -> Any:
    if name == "distutils.version":
        return SimpleNamespace(LooseVersion=_version, StrictVersion=_version)
    if name == "onnx.mapping":
        return _old_onnx().mapping
    found = builtins.__import__(name, *others, **named)
    match getattr(found, "__name__", ""):
        case "numpy":
            return _old_numpy()
        case "onnx":
            return _old_onnx()
    return found


class _StandIn(ModuleType):
    """A module with names of its own, and those of another one."""

    def __init__(self, module: ModuleType, names: dict[str, Any]) -> None:
        super().__init__(module.__name__)
        self._module = module
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        # The next look-up is as fast as in any module.
        setattr(self, name, value)
        return value


@functools.cache
def _old_numpy() -> ModuleType:
    import numpy

    functions = {
        **{"alltrue": numpy.all, "in1d": numpy.isin, "product": numpy.prod, "sometrue": numpy.any},
        **{"msort": functools.partial(numpy.sort, axis=0), "round_": numpy.round},
        "trapz": vars(numpy).get("trapezoid") or vars(numpy)["trapz"],
        # Now of the package numpy-financial. MXNet has them in its list of fallbacks.
        **dict.fromkeys(("mirr", "npv", "pmt", "ppmt", "pv", "rate")),
    }
    numbers = {
        **dict.fromkeys(("Inf", "PINF"), numpy.inf),
        **dict.fromkeys(("NAN", "NaN"), numpy.nan),
        **{"NINF": -numpy.inf, "NZERO": -0.0, "PZERO": 0.0},
    }
    # NumPy 1.24 removed `bool`; NumPy 2 has it again, with this meaning.
    return _StandIn(numpy, {**functions, **numbers, "bool": numpy.bool_})


@functools.cache
def _old_onnx() -> ModuleType:
    import numpy
    import onnx

    types = onnx.TensorProto.DataType.values()
    to_numpy = {
        kind: onnx.helper.tensor_dtype_to_np_dtype(kind)
        for kind in types
        if kind != onnx.TensorProto.UNDEFINED
    }
    # Of several types with one type of NumPy, such as float32 and bfloat16, the first counts.
    to_tensor = {numpy.dtype(dtype): kind for kind, dtype in reversed(to_numpy.items())}
    mapping = SimpleNamespace(TENSOR_TYPE_TO_NP_TYPE=to_numpy, NP_TYPE_TO_TENSOR_TYPE=to_tensor)
    return _StandIn(onnx, {"mapping": mapping})


def _version(text: str) -> list[int]:
    """What of distutils' versions MXNet compares: the first two numbers."""
    return [int(part) for part in text.split(".")[:2]]


def _text(value: Any) -> str:
    """Write an operator's parameter as NumPy 1 did; MXNet's library knows no other form."""
    if isinstance(value, tuple | list):
        return _NUMBER.sub(lambda found: found[1] or found[2], str(value))
    return str(value)

"""Decodes the optimizer that a worker sends to a parameter server, which MXNet sends as a pickle.

`server_commands` calls it in place of `pickle.loads`, which calls whatever the sender names. Here a
pickle may name only the classes below. MXNet is imported when an optimizer needs it.
"""

import io
import pickle
import struct
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from mxnet.optimizer import Optimizer

_OPTIMIZERS = (
    *("AdaDelta", "AdaGrad", "Adam", "Adamax", "DCASGD", "FTML", "Ftrl", "LAMB", "LARS", "LBSGD"),
    *("NAG", "Nadam", "RMSProp", "SGD", "SGLD", "Signum", "Test", "ccSGD"),
)
_SCHEDULERS = (
    *("LRScheduler", "FactorScheduler", "MultiFactorScheduler", "PolyScheduler"),
    "CosineScheduler",
)
ADMITTED = frozenset(
    [
        *(("mxnet.optimizer.optimizer", name) for name in _OPTIMIZERS),
        ("mxnet.optimizer.contrib", "GroupAdaGrad"),
        *(("mxnet.lr_scheduler", name) for name in _SCHEDULERS),
        # The scheduler of imagenet-train with dist_async.
        ("imagenet_workloads.frameworks.mxnet.optimizers", "ByUpdate"),
        ("imagenet_workloads.train.schedule", "Schedule"),
        ("imagenet_spec.program.kinds", "StepDecay"),
        ("imagenet_spec.program.kinds", "PolynomialDecay"),
        ("__builtin__", "object"),
    ]
)
"""Module and name of the classes in pickles of MXNet 1.9.1's optimizers and schedulers.

MXNet writes protocol 0, where Python's own modules have the names of Python 2.
"""

_MOVED = {"imagenet_workloads.train.options.kinds": "imagenet_spec.program.kinds"}
"""Where the modules are that workers of an older image name."""

_NUMBERS = {"b1": "?", "f2": "e", "f4": "f", "f8": "d", "i4": "i", "i8": "q"}
"""The codes of NumPy's numbers, and those of `struct`."""


class RefusedCommandError(Exception):
    """A server does not do what a worker asks; says why."""


def decode(body: bytes) -> "Optimizer":
    """Return the optimizer of a pickle.

    Raises:
        RefusedCommandError: The pickle is damaged, names another class, or holds no optimizer.
    """
    try:
        found = _Unpickler(io.BytesIO(body)).load()
    except RefusedCommandError:
        raise
    except Exception as error:
        raise RefusedCommandError(
            f"it is no pickle of MXNet's: {type(error).__name__}: {str(error)!r:.100}"
        ) from error
    from mxnet.optimizer import Optimizer

    if not isinstance(found, Optimizer):
        raise RefusedCommandError(
            f"it is of the type {type(found).__name__}, which is no optimizer"
        )
    return found


class _Unpickler(pickle._Unpickler):
    """Python's unpickler, whose memory grows with the pickle only.

    That in C makes room for a memo as large as any index that a pickle names.
    """

    # typeshed leaves out the stack and `load_build`, and gives the functions C's unpickler.
    stack: list[Any]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {**pickle._Unpickler.dispatch}

    def find_class(self, module: str, name: str) -> Any:
        # Compared as a whole: a name with dots would be a path of attributes.
        module = _MOVED.get(module, module)
        found = (module, name)
        if found in _HELPERS:
            return _HELPERS[found]
        if found not in ADMITTED:
            raise RefusedCommandError(
                f"it needs {f'{module}.{name}'!r:.100}, which is none of MXNet's optimizers"
            )
        return super().find_class(module, name)

    def load_build(self) -> None:
        """Set the attributes of an object, but of nothing that outlives it."""
        target, state = self.stack[-2:]
        if isinstance(target, type | FunctionType):
            raise RefusedCommandError("it sets attributes of a class or a function")
        if not hasattr(target, "__setstate__") and not isinstance(state, dict):
            raise RefusedCommandError("it has a state that is no dictionary")
        super().load_build()  # type: ignore[misc]

    dispatch[pickle.BUILD[0]] = load_build
    # It makes room for the length that a pickle names; no optimizer needs it.
    del dispatch[pickle.BYTEARRAY8[0]]


def _new_object(kind: Any, base: Any, state: Any) -> object:
    """Do what `copyreg._reconstructor` does for classes without a base in C."""
    if not isinstance(kind, type) or base is not object or state is not None:
        raise RefusedCommandError("it makes an object in a way that no optimizer needs")
    return object.__new__(kind)


class _NumberType:
    """A NumPy dtype of a number. NumPy's own class trusts the state that a pickle gives it."""

    def __init__(self, code: str, align: bool = False, copy: bool = True) -> None:
        if not isinstance(code, str):
            raise RefusedCommandError("it has a type of NumPy's without a name")
        if code not in _NUMBERS:
            raise RefusedCommandError(
                f"it has a value of NumPy's type {code!r:.100}, which is no number"
            )
        self.format = f"<{_NUMBERS[code]}"

    def __setstate__(self, state: object) -> None:
        """Ignore the rest, which is the same for all numbers of x86-64 and aarch64."""


def _number(kind: Any, raw: Any) -> float | int:
    if not isinstance(kind, _NumberType):
        raise RefusedCommandError("it has a value of NumPy's without a type")
    value: float | int = struct.unpack(kind.format, raw)[0]
    return value


def _encode(text: Any, encoding: Any) -> bytes:
    """Give the bytes that a pickle of protocol 0 writes as text."""
    if not isinstance(text, str):
        raise RefusedCommandError("it has bytes that are no text")
    return text.encode("latin1")


_HELPERS: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("copy_reg", "_reconstructor"): _new_object,
    # A rate that was computed with NumPy; the first name is NumPy 1's.
    ("numpy.core.multiarray", "scalar"): _number,
    ("numpy._core.multiarray", "scalar"): _number,
    ("numpy", "dtype"): _NumberType,
    ("_codecs", "encode"): _encode,
}
"""The replacements of the functions that such pickles call."""

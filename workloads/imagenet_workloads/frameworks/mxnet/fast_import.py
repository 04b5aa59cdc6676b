"""Makes `import mxnet` three times as fast; every worker of every attempt waits for it.

The entry points call `lighten_mxnet` before a process imports MXNet. The processes of tests create
operators lazily, too. It is written for MXNet 1.9.1, the last release.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from imagenet_workloads import mxnet_compatibility
from imagenet_workloads.train.description import leave_out

# MXNet imports these if it finds them, for parts that are not used here (an interface to
# scikit-learn, sparse matrices of SciPy), and does without where they are not installed. Through
# setuptools it gets a `distutils`, which `mxnet_compatibility` gives it.
UNUSED = ("scipy", "sklearn", "setuptools")

_BASE = "mxnet.base"

_Operator = Callable[..., Any]
_Make = Callable[[Any, str, str], _Operator]
"""Makes the function of an operator from its handle, its name in MXNet and its name in Python."""


def lighten_mxnet() -> None:
    """Let the next `import mxnet` skip what training does not need; loaded modules stay."""
    leave_out(UNUSED)
    make_operators_late()


def make_operators_late() -> None:
    """Let the next `import mxnet` create the function of an operator at its first call."""
    if _BASE not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds MXNet's modules as `mxnet_compatibility` does, and loads `base` with `_BaseLoader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = mxnet_compatibility.find_spec(fullname, path)
        if fullname == _BASE and spec is not None and spec.origin is not None:
            spec.loader = _BaseLoader(fullname, spec.origin)
        return spec


class _BaseLoader(mxnet_compatibility.MxnetLoader):
    """Changes the two functions of `base` by which all namespaces get their operators.

    Each takes the function that makes an operator's function. That one generates Python and
    compiles it, 2,500 times in an import; training calls about thirty operators.
    """

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        for name in ("_init_op_module", "_init_np_op_module"):
            setattr(module, name, _with_late_operators(getattr(module, name)))


def _with_late_operators(fill: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(fill)

    @functools.wraps(fill)
    def fill_late(*given: Any, **named: Any) -> None:
        arguments = signature.bind(*given, **named).arguments
        fill(**{**arguments, "make_op_func": _made_when_called(arguments["make_op_func"])})

    return fill_late


def _made_when_called(make: _Make) -> _Make:
    """Return stand-ins for operators; the first call of one makes it."""

    def lazy_operator(handle: Any, name: str, func_name: str) -> _Operator:
        made = functools.cache(functools.partial(make, handle, name, func_name))

        def operator(*arguments: Any, **options: Any) -> Any:
            return made()(*arguments, **options)

        # MXNet stores it under its name, and edits its docstring, which must be text.
        operator.__name__ = operator.__qualname__ = func_name
        operator.__doc__ = ""
        return operator

    return lazy_operator

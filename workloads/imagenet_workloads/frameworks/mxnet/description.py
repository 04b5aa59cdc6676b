"""The description of MXNet: its strategies, options that exclude each other, and other members.

Imports no MXNet, and makes `import mxnet` three times as fast, for which every worker of every
attempt waits. That is written for MXNet 1.9.1, the last release.
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from imagenet_spec.frameworks.mxnet import COMPRESSING, MXNET
from imagenet_spec.program.option import flag
from imagenet_spec.program.train import Options
from imagenet_workloads import mxnet_compatibility
from imagenet_workloads.data import reader
from imagenet_workloads.dataset import FILE_NAME, read_dataset
from imagenet_workloads.frameworks.mxnet.record_files import require_records
from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole
from imagenet_workloads.train.description import FrameworkDescription, leave_out

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


STRATEGIES = {
    "local": "single",
    "device": "single",
    "nccl": "single",
    "dist_sync": "synchronous",
    "dist_device_sync": "synchronous",
    "dist_async": "asynchronous",
    "horovod": "horovod",
}


def contradiction(options: Options) -> str | None:
    """Name options that MXNet cannot combine; None if there are none."""
    cluster, varied = options.cluster, options.augmentation
    channels, height, width = options.model.image_shape
    changed = [flag(name) for name in MXNET.lacks_grey_augmentations if getattr(varied, name)]
    if channels == 1 and changed:
        return (
            f"argument {', '.join(changed)}: MXNet changes no colours of images of 1 channel; "
            f"leave it out, or write --image-shape 3,{height},{width}"
        )
    largest = varied.max_random_aspect_ratio
    if varied.random_resized_crop and varied.min_random_aspect_ratio is None and largest >= 1:
        return (
            f"argument --max-random-aspect-ratio: {largest:g} without --min-random-aspect-ratio is "
            f"a change, to ratios from 1 - {largest:g}, which is not above 0: write "
            "--min-random-aspect-ratio too, or a change below 1"
        )
    if problem := reader.contradiction(options):
        return problem
    if cluster.kv_store == "nccl" and not cluster.gpus:
        return "argument --kv-store: nccl adds up over GPUs; write --gpus, or --kv-store device"
    # What does not give the same bits each time, and what to write instead.
    problem = None
    if cluster.kv_store == "dist_async":
        problem = "dist_async applies gradients as they arrive; write --kv-store dist_sync"
    elif cluster.gc_type != "none":
        problem = "--gc-type keeps rounding errors that no checkpoint holds; write --gc-type none"
    elif not reader.is_ordered(options):
        problem = "ImageRecordIter resumes with other images; write --reader Ordered"
    if cluster.deterministic and problem:
        return f"argument --deterministic: {problem}, or leave --deterministic out"
    if cluster.gc_type != "none" and cluster.kv_store not in COMPRESSING:
        return (
            f"argument --gc-type: --kv-store {cluster.kv_store} cannot compress; write "
            "device or a dist one"
        )
    return None


def serve(options: Options, variables: Mapping[str, str]) -> int | None:
    """Run the scheduler or server that DMLC_ROLE names; return None in a worker.

    WorkloadError: a variable is wrong, or MXNet cannot serve.
    """
    member = DmlcMember.from_mapping(variables)
    if member is None:
        return None
    os.environ.update(member.variables())
    if member.role is DmlcRole.WORKER:
        return None
    from imagenet_workloads.frameworks.mxnet import server_process

    return server_process.run(member, options.cluster, variables)


def explain_abort(options: Options) -> None:
    """Search the dataset for a damaged record, at which MXNet aborts the process."""
    folder = options.data.dataset
    if folder is not None and (folder / FILE_NAME).exists():
        require_records(read_dataset(folder), folder)


DESCRIPTION = FrameworkDescription(
    has=MXNET,
    library="mxnet",
    package=__package__,
    option="kv_store",
    strategies=STRATEGIES,
    contradiction=contradiction,
    before_import=lighten_mxnet,
    serve=serve,
    explain_abort=explain_abort,
    exports=("safetensors", "onnx"),
    # The wheel for GPUs is that for CUDA 11.2.
    cuda=lambda mxnet: "11.2",
)

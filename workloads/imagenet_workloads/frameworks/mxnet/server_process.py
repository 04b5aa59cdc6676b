"""The scheduler and the servers: MXNet's own code under its role, with metrics beside it.

They run inside a C function of MXNet's that returns when the last worker has left, so everything
else starts before. `import mxnet` would take seconds of a processor and 150 MB for each of them,
and all members wait for the scheduler. So only a server to which a worker sends an optimizer
imports MXNet, and only then.

ps-lite leaves commands of workers to Python. Only command 0 exists: it brings the optimizer that
updates the weights on the servers, as a pickle. ps-lite has no passwords, so any client may send
it, and `pickle.loads` would run the client's code in the pod of another one's job. So Python's
Unpickler is restricted to the classes below, as its documentation shows (docs/security.md).
"""

import ctypes
import importlib.util
import io
import logging
import os
import pickle
import signal
import struct
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from imagenet_spec import metrics
from imagenet_spec.frameworks.mxnet import IN_STEP
from imagenet_spec.names import TRAIN_PROGRAM
from imagenet_spec.program.train import ClusterOptions
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.program import leave_message, say
from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole, Listener, wait_for_scheduler
from imagenet_workloads.rendezvous.waiting import give_up, watch
from imagenet_workloads.telemetry import server
from imagenet_workloads.telemetry.event_log import log_readably

if TYPE_CHECKING:
    from mxnet.kvstore import KVStore
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

    RefusedCommandError: it is damaged, names another class, or holds no optimizer.
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
    """The one written in Python: that in C trusts the lengths that a pickle names."""

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
"""Stand-ins for the functions that such pickles call: the real ones make any object, import a
codec's module by its name, or trust the pickle with the memory of an array."""


_OPTIMIZER = 0


@dataclass(frozen=True)
class Workers:
    """What a server knows of the job's workers; no program if it is unknown or the user's own."""

    kv_store: str = ""
    program: str = ""

    @property
    def are_ours(self) -> bool:
        return self.program == TRAIN_PROGRAM

    @property
    def send_optimizers(self) -> bool:
        """Whether one of them may send an optimizer; Gluon's Trainer does so in each kvstore."""
        return not (self.are_ours and self.kv_store in IN_STEP)


class Controller:
    """Obeys commands, as MXNet's KVStoreServer does, but runs no code of the sender.

    MXNet answers the sender in any case: it does not learn that a command was refused.
    """

    def __init__(
        self, store: ctypes.c_void_p, workers: Workers, count_refusal: Callable[[], object]
    ) -> None:
        self._handle, self._workers, self._count_refusal = store, workers, count_refusal
        # MXNet calls the optimizer for as long as this lives.
        self._store: KVStore | None = None

    def __call__(self, command: int, body: bytes | None, _: None = None) -> None:
        """Obey a command by its number; the body of command 0 is a pickle."""
        try:
            if command != _OPTIMIZER:
                raise RefusedCommandError("it is unknown")
            if not self._workers.send_optimizers:
                raise RefusedCommandError(f"workers of {self._workers.kv_store} send no optimizer")
            # In a server, `import mxnet` would not return: it would become a second server.
            os.environ["DMLC_ROLE"] = DmlcRole.WORKER
            try:
                optimizer = decode(body or b"")
                if self._store is None:
                    from mxnet.kvstore import KVStore

                    self._store = KVStore(self._handle)
            finally:
                os.environ["DMLC_ROLE"] = DmlcRole.SERVER
            self._store.set_optimizer(optimizer)
        except RefusedCommandError as refusal:
            self._count_refusal()
            _log.warning("refused command %d of a worker: %s", command, refusal)
            if not self._workers.are_ours:
                # It may be the workers' own optimizer: they would train without it.
                _end(str(refusal))
        except BaseException as error:
            say("".join(traceback.format_exception(error)))
            _end(f"{type(error).__name__}: {error}")


def _end(reason: str) -> NoReturn:
    """End a server that cannot obey a worker of the job.

    ctypes would drop the error, MXNet would answer the worker that all is done, and the training
    would go on without its optimizer.
    """
    try:
        leave_message(
            f"the server cannot obey a worker: {reason}; servers run the "
            "operator's image, without the worker's own code: use an optimizer of MXNet's, or "
            "update the weights in the worker",
            os.environ,
        )
    finally:
        # An exception cannot leave a function that C++ calls.
        os._exit(WorkloadError.exit_code)


_log = logging.getLogger(__name__)


def run(member: DmlcMember, options: ClusterOptions, variables: Mapping[str, str]) -> int:
    """Serve until the job ends; SIGTERM and SIGINT end the process immediately.

    The timeout of the options holds for the scheduler, and again for the other members.
    WorkloadError: the scheduler is not there in time, or MXNet cannot serve.
    """
    # There is nothing to save, and a Python handler would never run inside MXNet.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    log_readably()
    listener = Listener.of(member)
    environment = Environment.from_mapping(variables)
    registry = server.start(
        environment,
        listener.missing
        if listener
        else lambda: "members that have joined are unknown: PORT or DMLC_NODE_HOST is not set",
    )
    # Before the wait, because it takes a while.
    library = load_library()
    wait_for_scheduler(member, options.join_timeout)
    _log.info(
        "%s for %d workers and %d servers, at %s:%d",
        member.role,
        member.workers,
        member.servers,
        member.host,
        member.port,
    )
    if listener is not None:
        # It ends the process if a member has not joined in time.
        watched = (listener.missing, options.join_timeout, give_up, threading.Event())
        threading.Thread(target=watch, args=watched, name="deadline", daemon=True).start()
    if member.role is DmlcRole.SERVER:
        registry.add(metrics.PEER_REQUESTS_REFUSED, 0)
    serve(
        library,
        Workers(options.kv_store, environment.worker_program),
        lambda: registry.add(metrics.PEER_REQUESTS_REFUSED, 1),
    )
    return 0


# MXKVStoreServerController of MXNet's c_api.h: a command's number, its body, and what is handed
# through to it.
_Function = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def serve(library: ctypes.CDLL, workers: Workers, count_refusal: Callable[[], object]) -> None:
    """Run as the scheduler or server of DMLC_ROLE; return when the last worker has left.

    WorkloadError: MXNet was built without ps-lite.
    """
    store = ctypes.c_void_p()
    _check(library, library.MXKVStoreCreate(b"dist", ctypes.byref(store)))
    controller = Controller(store, workers, count_refusal)
    _check(library, library.MXKVStoreRunServer(store, _Function(controller), None))


def load_library() -> ctypes.CDLL:
    """Load MXNet's library; WorkloadError if MXNet is not installed."""
    package = importlib.util.find_spec("mxnet")
    if package is None or package.origin is None:
        raise WorkloadError("MXNet is not installed here, and a scheduler or server is made of it")
    # This file of MXNet's knows the path, and imports nothing of it.
    found = importlib.util.spec_from_file_location(
        "mxnet_libinfo", Path(package.origin).with_name("libinfo.py")
    )
    assert found is not None and found.loader is not None
    libinfo = importlib.util.module_from_spec(found)
    found.loader.exec_module(libinfo)
    library = ctypes.CDLL(str(libinfo.find_lib_path()[0]))
    library.MXGetLastError.restype = ctypes.c_char_p
    return library


def _check(library: ctypes.CDLL, code: int) -> None:
    if code != 0:
        raise WorkloadError(f"MXNet cannot serve: {library.MXGetLastError().decode().strip()}")

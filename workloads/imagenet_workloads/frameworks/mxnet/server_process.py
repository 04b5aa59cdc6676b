"""The scheduler and the servers: MXNet's own code under its role, with metrics beside it.

They run inside a C function of MXNet's that returns when the last worker has left, so everything
else starts before. `import mxnet` would take seconds of a processor and 150 MB for each of them,
and all members wait for the scheduler. So only a server to which a worker sends an optimizer, which
is pickled Python, imports MXNet, and only then.
"""

import ctypes
import importlib.util
import logging
import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.program import leave_message, say
from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole, wait_for_scheduler
from imagenet_workloads.rendezvous.peer_connections import Listener
from imagenet_workloads.rendezvous.waiting import give_up, watch
from imagenet_workloads.telemetry import server
from imagenet_workloads.telemetry.log import log_readably

_log = logging.getLogger(__name__)


def run(member: DmlcMember, timeout: float, variables: Mapping[str, str]) -> int:
    """Serve until the job is over; SIGTERM and SIGINT end it at once.

    Args:
        member: a scheduler or a server.
        timeout: seconds to wait for the scheduler, and again for the other members.
        variables: the environment.

    Raises:
        WorkloadError: the scheduler does not come, or MXNet cannot serve.
    """
    # Nothing here is worth saving, and a handler of Python's would never run inside MXNet.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    log_readably()
    listener = Listener.of(member)
    server.start(Environment.from_mapping(variables), listener.missing if listener else _unknown)
    wait_for_scheduler(member, timeout)
    _log.info(
        "%s for %d workers and %d servers, at %s:%d",
        member.role,
        member.workers,
        member.servers,
        member.host,
        member.port,
    )
    if listener is not None:
        threading.Thread(
            target=watch,
            args=(listener.missing, timeout, give_up, threading.Event()),
            name="deadline",
            daemon=True,
        ).start()
    serve()
    return 0


def _unknown() -> str:
    return "who has joined is seen only where PORT and DMLC_NODE_HOST are set"


_Command = Callable[[int, bytes, None], None]
# MXKVStoreServerController of MXNet's c_api.h: a command's number, its body, and what is handed
# through to it.
_Controller = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def serve() -> None:
    """Be the scheduler or server that DMLC_ROLE names; return when the last worker has left.

    Raises:
        WorkloadError: MXNet is not installed, or is one without ps-lite.
    """
    library = ctypes.CDLL(_library())
    library.MXGetLastError.restype = ctypes.c_char_p
    store = ctypes.c_void_p()
    _check(library, library.MXKVStoreCreate(b"dist", ctypes.byref(store)))
    python: list[_Command] = []

    def obey(command: int, body: bytes, _: None) -> None:
        try:
            if not python:
                python.append(_controller_in_python(store))
            python[0](command, body, None)
        except BaseException as error:
            _end_with(error)

    _check(library, library.MXKVStoreRunServer(store, _Controller(obey), None))


def _library() -> str:
    """Give the path of libmxnet.so as MXNet finds it, from a file that imports nothing of it."""
    package = importlib.util.find_spec("mxnet")
    if package is None or package.origin is None:
        raise WorkloadError("MXNet is not installed here, and a scheduler or server is made of it")
    found = importlib.util.spec_from_file_location(
        "mxnet_libinfo", Path(package.origin).with_name("libinfo.py")
    )
    assert found is not None and found.loader is not None
    libinfo = importlib.util.module_from_spec(found)
    found.loader.exec_module(libinfo)
    return str(libinfo.find_lib_path()[0])


def _check(library: ctypes.CDLL, code: int) -> None:
    if code != 0:
        raise WorkloadError(f"MXNet cannot serve: {library.MXGetLastError().decode().strip()}")


def _end_with(error: BaseException) -> NoReturn:
    """End a server that cannot obey a worker.

    ctypes would drop the error, MXNet would tell the worker that all is done, and the training
    would go on without its optimizer.
    """
    try:
        leave_message(
            f"the server cannot obey a worker: {type(error).__name__}: {error}; servers run the "
            "operator's image, without the worker's own code: use an optimizer of MXNet's, or "
            "update the weights in the worker",
            os.environ,
        )
        say("".join(traceback.format_exception(error)))
    finally:
        # An exception cannot leave a function that C++ calls.
        os._exit(WorkloadError.exit_code)


def _controller_in_python(store: ctypes.c_void_p) -> _Command:
    """Give MXNet's own answer to commands, whose import may not become a second server."""
    os.environ["DMLC_ROLE"] = DmlcRole.WORKER
    from mxnet.kvstore.kvstore import KVStore
    from mxnet.kvstore.kvstore_server import KVStoreServer

    os.environ["DMLC_ROLE"] = DmlcRole.SERVER
    controller: _Command = KVStoreServer(KVStore(store))._controller()
    return controller

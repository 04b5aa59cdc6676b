"""The scheduler and the servers: MXNet's own code under its role, with metrics beside it.

They run inside a C function of MXNet's that returns when the last worker has left, so everything
else starts before. `import mxnet` would take seconds of a processor and 150 MB for each of them,
and all members wait for the scheduler. So only a server to which a worker sends an optimizer
imports MXNet, and only then: see `server_commands`.
"""

import ctypes
import importlib.util
import logging
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from imagenet_spec import metrics
from imagenet_spec.program.train import ClusterOptions
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.frameworks.mxnet.server_commands import Controller, Workers
from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole, Listener, wait_for_scheduler
from imagenet_workloads.rendezvous.waiting import give_up, watch
from imagenet_workloads.telemetry import server
from imagenet_workloads.telemetry.log import log_readably

_log = logging.getLogger(__name__)


def run(member: DmlcMember, options: ClusterOptions, variables: Mapping[str, str]) -> int:
    """Serve until the job ends; SIGTERM and SIGINT end the process immediately.

    Args:
        member: a scheduler or a server.
        options: the kvstore, and the seconds to wait for the scheduler, and again for the other
            members.
        variables: the environment.

    Raises:
        WorkloadError: the scheduler is not there in time, or MXNet cannot serve.
    """
    # There is nothing to save, and a Python handler would never run inside MXNet.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    log_readably()
    listener = Listener.of(member)
    environment = Environment.from_mapping(variables)
    registry = server.start(environment, listener.missing if listener else _unknown)
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
        _start_deadline(listener, options.join_timeout)
    if member.role is DmlcRole.SERVER:
        registry.add(metrics.PEER_REQUESTS_REFUSED, 0)
    serve(
        library,
        Workers(options.kv_store, environment.worker_program),
        lambda: registry.add(metrics.PEER_REQUESTS_REFUSED, 1),
    )
    return 0


def _start_deadline(listener: Listener, timeout: float) -> None:
    """End the process in a thread if a member has not joined in time."""
    watched = (listener.missing, timeout, give_up, threading.Event())
    threading.Thread(target=watch, args=watched, name="deadline", daemon=True).start()


def _unknown() -> str:
    return "members that have joined are unknown: PORT or DMLC_NODE_HOST is not set"


# MXKVStoreServerController of MXNet's c_api.h: a command's number, its body, and what is handed
# through to it.
_Function = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def serve(library: ctypes.CDLL, workers: Workers, count_refusal: Callable[[], object]) -> None:
    """Run as the scheduler or server of DMLC_ROLE; return when the last worker has left.

    Args:
        library: MXNet's, of `load_library`.
        workers: What a server may be sent.
        count_refusal: Is called for each command that a server refuses.

    Raises:
        WorkloadError: MXNet was built without ps-lite.
    """
    store = ctypes.c_void_p()
    _check(library, library.MXKVStoreCreate(b"dist", ctypes.byref(store)))
    controller = Controller(store, workers, count_refusal)
    _check(library, library.MXKVStoreRunServer(store, _Function(controller), None))


def load_library() -> ctypes.CDLL:
    """Load MXNet's library.

    Raises:
        WorkloadError: MXNet is not installed.
    """
    library = ctypes.CDLL(_library())
    library.MXGetLastError.restype = ctypes.c_char_p
    return library


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

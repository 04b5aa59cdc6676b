"""What a parameter server does with the commands of workers that ps-lite leaves to Python.

`server_process` gives it to MXNet. Only command 0 exists: it brings the optimizer that updates the
weights on the servers. ps-lite has no passwords, so any client may send it.
"""

import ctypes
import logging
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.frameworks.mxnet.optimizer_pickles import RefusedCommandError, decode
from imagenet_workloads.process.program import leave_message, say
from imagenet_workloads.rendezvous.dmlc import DmlcRole

if TYPE_CHECKING:
    from mxnet.kvstore import KVStore

_log = logging.getLogger(__name__)

_OPTIMIZER = 0
_OUR_PROGRAM = "imagenet-train"
_IN_STEP = ("dist_sync", "dist_device_sync")


@dataclass(frozen=True)
class Workers:
    """What a server knows of the job's workers.

    Attributes:
        kv_store: Their --kv-store.
        program: Their program; empty if it is unknown or the user's own.
    """

    kv_store: str = ""
    program: str = ""

    @property
    def are_ours(self) -> bool:
        """Whether they run imagenet-train."""
        return self.program == _OUR_PROGRAM

    @property
    def send_optimizers(self) -> bool:
        """Whether one of them may send an optimizer; Gluon's Trainer does so in each kvstore."""
        return not (self.are_ours and self.kv_store in _IN_STEP)


class Controller:
    """Obeys commands, as MXNet's KVStoreServer does, but runs no code of the sender.

    MXNet answers the sender in any case: it does not learn that a command was refused.
    """

    def __init__(
        self, store: ctypes.c_void_p, workers: Workers, count_refusal: Callable[[], object]
    ) -> None:
        """Begin without an optimizer.

        Args:
            store: The server's kvstore.
            workers: What the job's workers may send.
            count_refusal: Is called for each refused command.
        """
        self._handle, self._workers, self._count_refusal = store, workers, count_refusal
        # MXNet calls the optimizer for as long as this lives.
        self._store: KVStore | None = None

    def __call__(self, command: int, body: bytes | None, _: None = None) -> None:
        """Obey a command.

        Args:
            command: Its number.
            body: A pickle, for command 0.
        """
        try:
            self._obey(command, body or b"")
        except RefusedCommandError as refusal:
            self._count_refusal()
            _log.warning("refused command %d of a worker: %s", command, refusal)
            if not self._workers.are_ours:
                # It may be the workers' own optimizer: they would train without it.
                _end(str(refusal))
        except BaseException as error:
            say("".join(traceback.format_exception(error)))
            _end(f"{type(error).__name__}: {error}")

    def _obey(self, command: int, body: bytes) -> None:
        if command != _OPTIMIZER:
            raise RefusedCommandError("it is unknown")
        if not self._workers.send_optimizers:
            raise RefusedCommandError(f"workers of {self._workers.kv_store} send no optimizer")
        with _as_worker():
            optimizer = decode(body)
            if self._store is None:
                from mxnet.kvstore import KVStore

                self._store = KVStore(self._handle)
        self._store.set_optimizer(optimizer)


@contextmanager
def _as_worker() -> Iterator[None]:
    """Let `import mxnet` return: in a server it would become a second server."""
    os.environ["DMLC_ROLE"] = DmlcRole.WORKER
    try:
        yield
    finally:
        os.environ["DMLC_ROLE"] = DmlcRole.SERVER


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

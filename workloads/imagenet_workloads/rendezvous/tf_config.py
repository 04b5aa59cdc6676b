"""The workers in TF_CONFIG, and the wait for them with a timeout, which TensorFlow lacks."""

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.rendezvous import LOOPBACK, IsHopeless, LocalMember, never
from imagenet_workloads.rendezvous.waiting import deadline, give_up

_log = logging.getLogger(__name__)

VARIABLE = "TF_CONFIG"
# TensorFlow's errors after the loss of a worker.
_LOST = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError")


def find(asked: str, variables: Mapping[str, str]) -> "TfConfigRendezvous":
    """Read the environment of this worker.

    Raises:
        InputError: The variable is missing or invalid.
    """
    text = variables.get(VARIABLE)
    if not text:
        raise InputError(
            f"{asked}: {VARIABLE} must list the workers and the task of this one: "
            + json.dumps({"cluster": {"worker": ["host:port"]}, "task": {"type": "worker"}})
        )
    fields = Fields.parse(text, VARIABLE)
    workers = fields.object("cluster").texts("worker")
    index = fields.object("task").integer("index")
    if not 0 <= index < len(workers):
        raise fields.wrong("task", f"names worker {index} of {len(workers)}")
    return TfConfigRendezvous(workers, index)


def local_members(workers: int, servers: int, free_port: Callable[[], int]) -> list[LocalMember]:
    """Return the workers."""
    listed = {"worker": [f"{LOOPBACK}:{free_port()}" for _ in range(workers)]}
    tasks = [{"type": "worker", "index": index} for index in range(workers)]
    return [
        LocalMember({VARIABLE: json.dumps({"cluster": listed, "task": task})}) for task in tasks
    ]


class TfConfigRendezvous:
    """The other workers; implements `Rendezvous`."""

    def __init__(self, workers: tuple[str, ...], index: int) -> None:
        """Take all workers, and the index of this one."""
        self._workers, self._index = workers, index

    def wait(self, timeout: float) -> IsHopeless:
        """Return immediately: TensorFlow's workers may start in any order."""
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch TensorFlow's wait, which has no log line and no timeout.

        The strategy makes it wait without Python's lock and without a SIGTERM handler. So a thread
        can end the wait, and a signal ends the process.
        """
        others = [name for place, name in enumerate(self._workers) if place != self._index]
        wanted = f"{', '.join(others) or 'no worker'} to join"
        _log.info("waits at most %g s for %s", timeout, wanted)
        return deadline(wanted, timeout, give_up)

    def explain(self, error: Exception) -> str | None:
        """Explain the error of a lost worker, by the type of TensorFlow's error."""
        if type(error).__name__ in _LOST:
            return (
                "another worker has ended or does not answer; this one cannot continue without it"
            )
        return None

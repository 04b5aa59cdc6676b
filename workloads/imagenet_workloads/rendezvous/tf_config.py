"""The workers in TF_CONFIG, and the wait for them with a timeout, which TensorFlow lacks."""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.rendezvous import LOOPBACK, IsHopeless, LocalMember, never
from imagenet_workloads.rendezvous.waiting import deadline, give_up, keep_trying, resolve

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
        """Wait for the workers' names, and watch TensorFlow's wait, which has no log line.

        The strategy makes it wait without Python's lock and without a SIGTERM handler. So a thread
        can end the wait, and a signal ends the process.
        """
        return self._joining(timeout)

    @contextmanager
    def _joining(self, timeout: float) -> Iterator[None]:
        others = [name for place, name in enumerate(self._workers) if place != self._index]
        wanted = f"{', '.join(others) or 'no worker'} to join"
        _log.info("waits at most %g s for %s", timeout, wanted)
        # TensorFlow would also ask outside of the cluster for a name that is not known yet, which
        # may take 10 s, and waits a second before it asks again.
        addresses = [self._address(name, timeout) for name in self._workers]
        task = {"type": "worker", "index": self._index}
        os.environ[VARIABLE] = json.dumps({"cluster": {"worker": addresses}, "task": task})
        with deadline(wanted, timeout, give_up):
            yield

    def _address(self, name: str, timeout: float) -> str:
        """Return HOST:PORT with an IP address, when the host's name resolves."""
        host, _, port = name.rpartition(":")
        who, wanted = f"worker {self._index}", f"the name {host} to resolve"
        found = keep_trying(lambda: resolve(host, int(port)), who, wanted, timeout)
        return f"[{found}]:{port}" if ":" in found else f"{found}:{port}"

    def explain(self, error: Exception) -> str | None:
        """Explain the error of a lost worker, by the type of TensorFlow's error."""
        if type(error).__name__ in _LOST:
            return (
                "another worker has ended or does not answer; this one cannot continue without it"
            )
        return None

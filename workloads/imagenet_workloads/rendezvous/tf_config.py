"""The workers in TF_CONFIG, and the wait for them with a timeout, which TensorFlow lacks."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.rendezvous import LOOPBACK, IsHopeless, LocalMember
from imagenet_workloads.rendezvous.waiting import deadline, give_up, is_gone, resolve

_log = logging.getLogger(__name__)

VARIABLE = "TF_CONFIG"
# TensorFlow's errors after the loss of a worker.
_LOST = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError")
# Seconds that a worker may need for a checkpoint's begin after the others have ended.
GONE_SECONDS = 1.0


def find(asked: str, variables: Mapping[str, str]) -> "TfConfigRendezvous":
    """Read the environment of this worker."""
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
        self._others = [worker for place, worker in enumerate(workers) if place != index]
        self._addresses: list[tuple[str, int]] = []
        self._gone_since: float | None = None

    def wait(self, timeout: float) -> IsHopeless:
        """Return immediately: TensorFlow's workers may start in any order.

        If a worker has ended between two sums, TensorFlow connects to it again for the next one.
        Nothing rejects that at the address of a deleted pod, so the sum lasts for half a minute. No
        checkpoint is possible then.
        """
        return self._is_a_worker_gone

    @contextmanager
    def joining(self, timeout: float) -> Iterator[None]:
        """Watch TensorFlow's wait, which has no log line and no timeout.

        The strategy makes it wait without Python's lock and without a SIGTERM handler. So a thread
        can end the wait, and a signal ends the process.
        """
        wanted = f"{', '.join(self._others) or 'no worker'} to join"
        _log.info("waits at most %g s for %s", timeout, wanted)
        with deadline(wanted, timeout, give_up):
            yield
        for worker in self._others:
            host, _, port = worker.rpartition(":")
            with suppress(OSError):
                self._addresses.append((resolve(host.strip("[]"), int(port)), int(port)))

    def _is_a_worker_gone(self) -> bool:
        """Whether another worker has not listened for a second.

        At the end of a training that is stopped, the others may end before this one begins to
        write the last checkpoint.
        """
        began = time.monotonic()
        if not any(is_gone(*address) for address in self._addresses):
            self._gone_since = None
            return False
        if self._gone_since is None:
            self._gone_since = began
        return time.monotonic() - self._gone_since >= GONE_SECONDS

    def explain(self, error: Exception) -> str | None:
        if type(error).__name__ in _LOST:
            return (
                "another worker has ended or does not answer; this one cannot continue without it"
            )
        return None

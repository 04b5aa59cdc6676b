"""A worker among those that TF_CONFIG lists; TensorFlow waits for them, without a timeout."""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from ipaddress import IPv4Address

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.rendezvous import IsHopeless, never
from imagenet_workloads.rendezvous.waiting import deadline, give_up

_log = logging.getLogger(__name__)

VARIABLE = "TF_CONFIG"
# What TensorFlow's errors say where a worker has gone while others counted on it.
_LOST = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError")


def find(asked: str, variables: Mapping[str, str]) -> "TfConfigRendezvous":
    """Read who this worker is.

    Raises:
        InputError: the variable is missing or wrong.
    """
    text = variables.get(VARIABLE)
    if not text:
        raise InputError(
            f"{asked}: {VARIABLE} must list the workers and say which this is: "
            + json.dumps({"cluster": {"worker": ["host:port"]}, "task": {"type": "worker"}})
        )
    fields = Fields.parse(text, VARIABLE)
    workers = fields.object("cluster").texts("worker")
    index = fields.object("task").integer("index")
    if not 0 <= index < len(workers):
        raise fields.wrong("task", f"names worker {index} of {len(workers)}")
    return TfConfigRendezvous(workers, index)


def apart(workers: Sequence[str]) -> list[str]:
    """Give workers that differ by their loopback address alone, as in a local run, a port each.

    TensorFlow's server listens on all addresses of a machine, whatever TF_CONFIG says, so that the
    second of them would find its port taken. Every worker computes the same ports.
    """
    return [_apart(worker) for worker in workers]


def _apart(worker: str) -> str:
    host, _, port = worker.rpartition(":")
    try:
        address = IPv4Address(host)
    except ValueError:
        return worker
    if not address.is_loopback:
        return worker
    # Below the ports that the kernel hands out, above those that members have in a cluster.
    return f"{host}:{20_000 + (int(address) + int(port)) % 12_000}"


class TfConfigRendezvous:
    """The other workers; implements `Rendezvous`."""

    def __init__(self, workers: tuple[str, ...], index: int) -> None:
        """Take all of them, and which this is."""
        self._workers, self._index = workers, index

    def wait(self, timeout: float) -> IsHopeless:
        """Return at once: TensorFlow's workers may start in any order."""
        return never

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch TensorFlow wait, which it does without a log line and without a timeout.

        The strategy has it wait without Python's lock, and leave SIGTERM alone: so a thread can
        give up for it, and a signal ends the process as at any other time.
        """
        others = [name for place, name in enumerate(self._workers) if place != self._index]
        wanted = f"{', '.join(others) or 'nobody'} to join"
        _log.info("waits at most %g s for %s", timeout, wanted)
        return deadline(wanted, timeout, give_up)

    def explain(self, error: Exception) -> str | None:
        """Name a lost worker as the reason, by the type of TensorFlow's error."""
        if type(error).__name__ in _LOST:
            return "another worker has ended, and this one cannot go on without it"
        return None

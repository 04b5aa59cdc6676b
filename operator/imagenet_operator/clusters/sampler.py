"""Beside the loop: a thread that asks the running members for their metrics, and keeps one sample.

A pass takes `latest` as an input and never waits for it; what the texts mean is
`reconcile.sample`'s business. Each look is bounded: in time, in bytes, and in how many members are
asked at once. Looks are jittered, so that many jobs do not ask in step.
"""

import http.client
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from imagenet_operator.api import Manifest
from imagenet_operator.reconcile.sample import Asked, Sample, parse_sample

METRICS_PORT_NAME = "metrics"
_AT_ONCE = 8
_LARGEST_BYTES = 1 << 20
_JITTER = 0.1


@dataclass(frozen=True)
class Target:
    """A member that serves metrics.

    Attributes:
        host: Its address.
        port: Where it serves them.
        asked: What it is in its job, which says what is missing without its answer.
    """

    host: str
    port: int
    asked: Asked


def targets(children: Iterable[Manifest]) -> dict[str, Target]:
    """Which of a job's children serve metrics now, by the pod's name."""
    found = {}
    for pod in children:
        if pod["kind"] != "Pod" or "deletionTimestamp" in pod["metadata"]:
            continue
        status = pod.get("status", {})
        port = _metrics_port(pod)
        if status.get("phase") == "Running" and status.get("podIP") and port is not None:
            asked = Asked.of_labels(pod["metadata"].get("labels", {}))
            found[str(pod["metadata"]["name"])] = Target(str(status["podIP"]), port, asked)
    return found


def _metrics_port(pod: Manifest) -> int | None:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == METRICS_PORT_NAME:
                return int(port["containerPort"])
    return None


def fetch(target: Target, timeout: float) -> str | None:
    """The metrics of one member; None if it does not answer properly in time.

    Args:
        target: The member.
        timeout: For the whole exchange, in seconds.
    """
    deadline = time.monotonic() + timeout
    connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            return None
        content = bytearray()
        while block := response.read1(1 << 16):
            content += block
            if len(content) > _LARGEST_BYTES or time.monotonic() > deadline:
                return None
        return content.decode()
    except (OSError, http.client.HTTPException, UnicodeDecodeError):
        return None
    finally:
        connection.close()


class Sampler:
    """Looks at a job's members again and again, in a thread of its own, while it is entered.

    Args:
        interval: Seconds between two looks.
        timeout: Seconds that one member may take to answer.
        announce: Called, in that thread, after each new sample.
    """

    def __init__(self, interval: float, timeout: float, announce: Callable[[], None]) -> None:
        self._interval = interval
        self._timeout = timeout
        self._announce = announce
        self._targets: Mapping[str, Target] = {}
        self._latest: Sample | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    @property
    def latest(self) -> Sample | None:
        """The newest sample, None before the first."""
        return self._latest

    def look_at(self, members: Mapping[str, Target]) -> None:
        """Set whom to ask from the next look on."""
        self._targets = members

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(_AT_ONCE, "sampler") as pool:
            while not self._stopped.wait(self._interval * random.uniform(1 - _JITTER, 1)):
                members = self._targets
                if members:
                    self._look(pool, members)

    def _look(self, pool: ThreadPoolExecutor, members: Mapping[str, Target]) -> None:
        answers = pool.map(lambda target: fetch(target, self._timeout), members.values())
        texts = {pod: text for pod, text in zip(members, answers, strict=True) if text is not None}
        # Silence is worth knowing of those that were heard before.
        if texts or self._latest is not None:
            asked = {pod: target.asked for pod, target in members.items()}
            self._latest = parse_sample(texts, self._latest, datetime.now(UTC), asked)
        if texts:
            self._announce()

"""What a pod shows of its slots: their metrics as one page, and whether all are at work.

`launcher` lets `telemetry.server` serve it; each scrape asks the slots, over loopback.
"""

import http.client
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from imagenet_workloads.train.horovod.aggregation import aggregate

# Seconds that a slot may take to answer, well below those of whoever scrapes.
PATIENCE = 2.0


class SlotMetrics(Collector):
    """The slots' metrics, to serve.

    Attributes:
        exported: collected at each scrape.
    """

    def __init__(self, wanted: str) -> None:
        """Begin without slots; `wanted` says what they wait for."""
        self._missing: str | None = wanted
        self._addresses: Sequence[tuple[str, int]] = ()
        self._pages: list[str] = []
        self.exported = CollectorRegistry()
        self.exported.register(self)

    def begin(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Take where the slots serve their metrics, by local rank."""
        self._pages = [""] * len(addresses)
        self._addresses, self._missing = addresses, None

    def readiness(self) -> str | None:
        """Say what the first slot that is not at work has not done yet; None when all are."""
        if self._missing is not None:
            return f"waits for {self._missing}"
        for local_rank, (status, text) in enumerate(self._ask("/readyz")):
            if status != http.client.OK:
                return f"slot {local_rank}: {text.strip() or 'does not answer yet'}"
        return None

    def collect(self) -> Iterable[Family]:
        """Give the pod's families; a slot that does not answer keeps what it last said.

        Otherwise a sum would fall, which Prometheus takes for a counter that began again.
        """
        for local_rank, (status, text) in enumerate(self._ask("/metrics")):
            if status == http.client.OK:
                self._pages[local_rank] = text
        return aggregate(self._pages)

    def _ask(self, path: str) -> list[tuple[int, str]]:
        if not self._addresses:
            return []
        with ThreadPoolExecutor(len(self._addresses)) as pool:
            return list(pool.map(lambda address: _get(address, path), self._addresses))


def _get(address: tuple[str, int], path: str) -> tuple[int, str]:
    """Get a page; (0, "") where nobody answers."""
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()

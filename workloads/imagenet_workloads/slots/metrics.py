"""The metrics of a pod of several slots: one page out of a page of each, and its readiness.

`launcher` lets `telemetry.server` serve it; each scrape asks the slots, over loopback.

Counters, histograms, speed and memory are added up. The time before an exchange of gradients has a
series for each slot, because the slowest slot counts. All else, such as the epoch, the accuracy or
the account of time, is the same in every slot or reported by the first rank: the first slot that
has it counts.
"""

import http.client
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from imagenet_spec.metrics import (
    SLOT_LABEL,
    TRAIN_BEFORE_EXCHANGE,
    TRAIN_EXCHANGES,
    TRAIN_IMAGES_PER_SECOND,
    TRAIN_SECONDS,
)

ADDED_TYPES = ("counter", "histogram", "summary")
ADDED_GAUGES = (
    TRAIN_IMAGES_PER_SECOND.name,
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_open_fds",
)
# Seconds of several slots at once are no wall time. The parser names a counter without its suffix.
NOT_ADDED = (TRAIN_SECONDS.name.removesuffix("_total"),)
OF_EACH_SLOT = tuple(
    metric.name.removesuffix("_total") for metric in (TRAIN_BEFORE_EXCHANGE, TRAIN_EXCHANGES)
)

# A series: its name and its labels.
_Key = tuple[str, tuple[tuple[str, str], ...]]
# Seconds that a slot may take to answer, well below the timeout of a scrape.
ANSWER_TIMEOUT = 2.0


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
        """Return the pod's families; a slot that does not answer keeps what it last said.

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
    """Get a page; (0, "") without an answer."""
    connection = http.client.HTTPConnection(*address, timeout=ANSWER_TIMEOUT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def aggregate(pages: Iterable[str]) -> list[Family]:
    """Make one page of the slots' pages, in the order of their ranks.

    Args:
        pages: in Prometheus's text format; an empty one is a slot that has not answered yet.

    Returns:
        the families, for prometheus_client to write.
    """
    found: dict[str, Family] = {}
    samples: dict[str, dict[_Key, Sample]] = {}
    every = list(pages)
    for slot, page in enumerate(every):
        for family in text_string_to_metric_families(page):
            found.setdefault(family.name, family)
            more = family.samples
            if family.name in OF_EACH_SLOT and len(every) > 1:
                label = {SLOT_LABEL: str(slot)}
                more = [sample._replace(labels={**sample.labels, **label}) for sample in more]
            is_added = family.name not in NOT_ADDED and (
                family.type in ADDED_TYPES or family.name in ADDED_GAUGES
            )
            known = samples.setdefault(family.name, {})
            for sample in more:
                key = sample.name, tuple(sorted(sample.labels.items()))
                before = known.setdefault(key, sample)
                if is_added and before is not sample:
                    known[key] = before._replace(value=before.value + sample.value)
    for name, family in found.items():
        family.samples = list(samples[name].values())
    return list(found.values())

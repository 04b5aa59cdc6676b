"""The metrics of one process, with fixed labels on every series.

The recorders (`training`, `preparation`) write the metrics of `imagenet_spec` to it; `server`
serves `exported`.
"""

import threading
from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from imagenet_spec.metrics import LABELS, Metric
from imagenet_workloads.environment import Environment


class Registry(Collector):
    """The metrics of this process.

    A metric appears when it is first written, so an accuracy that is not measured yet is absent,
    not 0. It is thread-safe.

    Attributes:
        exported: The registry to serve.
    """

    def __init__(self, environment: Environment) -> None:
        """Start with only the process metrics (CPU, memory, start time)."""
        # Otherwise each counter has a second series with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        attempt = "" if environment.attempt is None else str(environment.attempt)
        values = (environment.job, environment.namespace, str(environment.role or ""), attempt)
        self._labels = dict(zip(LABELS, values, strict=True))
        self._lock = threading.Lock()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        # What is not exported yet: a step changes a dozen values, and few are ever scraped.
        self._added: dict[tuple[str, ...], tuple[Metric, float]] = {}
        self._newest: dict[tuple[str, ...], tuple[Metric, float]] = {}
        self._before_scrape: list[Callable[[], None]] = []
        self._unlabelled = CollectorRegistry()
        ProcessCollector(registry=self._unlabelled)
        self.exported = CollectorRegistry()
        self.exported.register(self)

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to a counter; an amount of 0 makes it appear.

        Args:
            metric: the counter.
            amount: at least 0.
            *labels: the values of the metric's own labels.
        """
        series = (metric.name, *labels)
        with self._lock:
            _, before = self._added.get(series, (metric, 0.0))
            self._added[series] = metric, before + amount

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Sets a gauge; arguments as of `add`."""
        with self._lock:
            self._newest[metric.name, *labels] = metric, value

    def observe(self, metric: Metric, value: float) -> None:
        """Add one observation to a histogram."""
        with self._lock:
            histogram = self._histograms.get(metric.name)
            if histogram is None:
                histogram = Histogram(
                    metric.name, metric.help, buckets=metric.buckets, registry=self._unlabelled
                )
                self._histograms[metric.name] = histogram
        histogram.observe(value)

    def before_scrape(self, update: Callable[[], None]) -> None:
        """Call `update` before each scrape, for metrics that change without an event."""
        self._before_scrape.append(update)

    def collect(self) -> Iterable[Family]:
        """Yield every family with the fixed labels on each sample; prometheus_client calls this."""
        for update in self._before_scrape:
            update()
        self._export()
        for family in self._unlabelled.collect():
            family.samples = [
                sample._replace(labels={**self._labels, **sample.labels})
                for sample in family.samples
            ]
            yield family

    def _export(self) -> None:
        with self._lock:
            for (_, *labels), (metric, amount) in self._added.items():
                counter = self._counters.get(metric.name)
                if counter is None:
                    counter = Counter(
                        metric.name, metric.help, metric.labels, registry=self._unlabelled
                    )
                    self._counters[metric.name] = counter
                (counter.labels(*labels) if labels else counter).inc(amount)
            for (_, *labels), (metric, value) in self._newest.items():
                gauge = self._gauges.get(metric.name)
                if gauge is None:
                    gauge = Gauge(
                        metric.name, metric.help, metric.labels, registry=self._unlabelled
                    )
                    self._gauges[metric.name] = gauge
                (gauge.labels(*labels) if labels else gauge).set(value)
            self._added.clear()
            self._newest.clear()

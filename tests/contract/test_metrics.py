"""A page of metrics fits what the operator reads, and figures fit their metrics."""

import pytest
from prometheus_client import generate_latest

from imagenet_operator.clusters import untrusted_http
from imagenet_operator.reconcile import sample, scrape
from imagenet_spec import metrics
from imagenet_spec.metrics import MetricType
from imagenet_spec.resource import figures
from imagenet_spec.resource.figures import FIGURES, Combine, Figure
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry.server import Registry

UNITS = {
    figures.COUNT: {"epochs", "batches", "images", "seconds"},
    figures.RATE: {"images per second"},
    figures.SECONDS: {"seconds"},
    figures.MICROSECONDS: {"seconds"},
    figures.SHARE: {"ratio"},
    figures.FLAG: {"1"},
    figures.LOSS: {"nats"},
    figures.LEARNING_RATE: {"1"},
}
SERIES = {
    series: metric
    for metric in metrics.ALL
    for series in (
        (metric.sum_series, metric.count_series)
        if metric.kind is MetricType.HISTOGRAM
        else (metric.name,)
    )
}


def test_what_the_operator_reads_is_exported() -> None:
    assert SERIES.keys() >= sample.METRICS


def test_a_page_with_every_metric_is_no_longer_than_the_operator_reads() -> None:
    """Pages of several slots are no longer: slots are added up."""
    registry = Registry(Environment(job="j" * 40, namespace="n" * 63, role="worker", attempt=9))
    for metric in metrics.ALL:
        labels = ("a" * 32,) * len(metric.labels)
        if metric.kind is MetricType.HISTOGRAM:
            registry.observe(metric, 1 / 3)
        elif metric.kind is MetricType.COUNTER:
            registry.add(metric, 1 / 3, *labels)
        else:
            registry.set(metric, 1 / 3, *labels)
    page = generate_latest(registry.exported)
    assert len(page) < untrusted_http.MAX_BYTES / 2
    assert max(map(len, page.splitlines())) < scrape.LINE_MAXIMUM


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.field)
def test_a_figure_is_combined_as_its_metric_allows(figure: Figure) -> None:
    if figure.combine is Combine.DERIVED:
        assert figure.metric == figure.per == ""
        return
    metric = SERIES[figure.metric]
    if figure.combine is Combine.RATIO:
        # Only sums that grow can be compared between two samples, and only of one unit divided.
        assert metric.kind is SERIES[figure.per].kind is MetricType.HISTOGRAM
        assert metric.unit == SERIES[figure.per].unit
        return
    assert figure.per == ""
    assert metric.kind is MetricType.GAUGE
    assert metric.unit in UNITS[figure.number]

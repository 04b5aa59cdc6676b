"""The metrics that the operator reads are ones that the workloads export, in the same units."""

import pytest
from prometheus_client import generate_latest

from imagenet_operator.api import figures
from imagenet_operator.api.figures import FIGURES, Combine, Figure
from imagenet_operator.clusters import untrusted_http
from imagenet_operator.reconcile import sample, scrape
from imagenet_spec import metrics
from imagenet_spec.metrics import Metric, MetricType
from imagenet_workloads.environment import Environment, Role
from imagenet_workloads.telemetry.registry import Registry

UNITS = {
    figures.COUNT: {"epochs", "batches", "images", "seconds"},
    figures.RATE: {"images per second"},
    figures.SECONDS: {"seconds"},
    figures.MICROSECONDS: {"seconds"},
    figures.SHARE: {"ratio"},
    figures.FLAG: {"1"},
}


def series(metric: Metric) -> set[str]:
    """The series of a metric, as a scrape shows them."""
    suffixes = ("_bucket", "_sum", "_count") if metric.kind is MetricType.HISTOGRAM else ("",)
    return {metric.name + suffix for suffix in suffixes}


EXPORTED = {name: metric for metric in metrics.ALL for name in series(metric)}


def test_what_the_operator_reads_is_exported() -> None:
    assert sample.METRICS
    assert EXPORTED.keys() >= sample.METRICS


def test_a_page_with_every_metric_is_no_longer_than_the_operator_reads() -> None:
    """Pages of several slots are no longer: slots are added up."""
    registry = Registry(Environment(job="j" * 40, namespace="n" * 63, role=Role.WORKER, attempt=9))
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


def test_the_labels_that_the_operator_looks_at_are_on_every_series() -> None:
    assert {scrape.ROLE_LABEL, scrape.ATTEMPT_LABEL} <= set(metrics.LABELS)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.field)
def test_a_figure_is_combined_as_its_metric_allows(figure: Figure) -> None:
    if figure.combine is Combine.DERIVED:
        assert figure.metric == figure.per == ""
        return
    metric = EXPORTED[figure.metric]
    if figure.combine is Combine.RATIO:
        # Only sums that grow can be compared between two samples, and only of one unit divided.
        assert metric.kind is EXPORTED[figure.per].kind is MetricType.HISTOGRAM
        assert metric.unit == EXPORTED[figure.per].unit
        return
    assert figure.per == ""
    assert metric.kind is MetricType.GAUGE
    assert metric.unit in UNITS[figure.number]

"""The metrics that the operator reads are ones that the workloads export, in the same units."""

import pytest

from imagenet_operator.api import figures
from imagenet_operator.api.figures import FIGURES, Combine, Figure
from imagenet_operator.reconcile import sample
from imagenet_workloads.telemetry import names
from imagenet_workloads.telemetry.names import Metric, MetricType

UNITS = {
    figures.COUNT: {"epochs", "batches", "images", "seconds"},
    figures.RATE: {"images per second"},
    figures.SHARE: {"ratio"},
}


def series(metric: Metric) -> set[str]:
    """The series of a metric, as a scrape shows them."""
    suffixes = ("_bucket", "_sum", "_count") if metric.kind is MetricType.HISTOGRAM else ("",)
    return {metric.name + suffix for suffix in suffixes}


EXPORTED = {name: metric for metric in names.ALL for name in series(metric)}


def test_what_the_operator_reads_is_exported() -> None:
    assert sample.metrics()
    assert sample.metrics() <= EXPORTED.keys()


def test_the_labels_that_the_operator_looks_at_are_on_every_series() -> None:
    assert {sample.ROLE_LABEL, sample.ATTEMPT_LABEL} <= set(names.LABELS)


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

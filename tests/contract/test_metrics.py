"""The metrics that the operator reads are ones that the workloads export."""

from imagenet_operator.reconcile import sample
from imagenet_workloads.telemetry import names


def exported() -> set[str]:
    """Return the series of every metric, as a scrape shows them."""
    histogram = ("_bucket", "_sum", "_count")
    return {
        metric.name + suffix
        for metric in names.ALL
        for suffix in (histogram if metric.kind is names.Kind.HISTOGRAM else ("",))
    }


def read() -> set[str]:
    """Return every series that the operator knows by name."""
    return {
        value
        for name, value in vars(sample).items()
        if name.isupper() and name != "PREFIX" and str(value).startswith(sample.PREFIX)
    }


def test_what_the_operator_reads_is_exported() -> None:
    assert read()
    assert read() <= exported()


def test_the_labels_that_the_operator_looks_at_are_on_every_series() -> None:
    assert {sample.ROLE_LABEL, sample.ATTEMPT_LABEL} <= set(names.LABELS)

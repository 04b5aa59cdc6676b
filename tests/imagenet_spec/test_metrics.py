import re
from pathlib import Path

import pytest

from imagenet_spec.metrics import ALL, LABELS, Metric, MetricType

DOCUMENT = Path(__file__).parents[2] / "docs" / "telemetry.md"


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_name_says_what_prometheus_expects_of_its_type(metric: Metric) -> None:
    assert re.fullmatch(r"imagenet_(train|prepare|peer)_[a-z0-9_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricType.COUNTER)
    assert not metric.name.endswith(("_bucket", "_sum", "_count", "_created"))
    assert bool(metric.buckets) == (metric.kind is MetricType.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert metric.help.endswith(".")


def test_names_are_unique() -> None:
    assert len({metric.name for metric in ALL}) == len(ALL)


def documented() -> dict[str, tuple[str, str, str]]:
    """Type, unit and meaning of each workload metric in docs/telemetry.md, by name."""
    rows = re.findall(
        r"^\| `(imagenet_(?:train|prepare|peer)_\w+)` \| (.+?) \| (.+?) \| (.+?) \|$",
        DOCUMENT.read_text(),
        re.MULTILINE,
    )
    return {name: (kind, unit, meaning) for name, kind, unit, meaning in rows}


def test_the_document_lists_every_metric_with_type_unit_and_meaning() -> None:
    assert documented() == {
        metric.name: (metric.kind.value, metric.unit, metric.help) for metric in ALL
    }


def test_the_document_names_the_labels() -> None:
    text = DOCUMENT.read_text()
    for label in LABELS:
        assert f"`{label}`" in text

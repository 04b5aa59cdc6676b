"""Who reaches the operator's pod, by the NetworkPolicy of the chart."""

from __future__ import annotations

import pytest

from support import chart
from support.chart import Manifest, one
from support.network_policies import Endpoint, allows

PORT = 8080
PROMETHEUS = Endpoint("monitoring", {"app.kubernetes.io/name": "prometheus"}, {"team": "ops"})
MEMBER = Endpoint("vision", {"app.kubernetes.io/name": "imagenetjob"})
OUTSIDE = Endpoint(address="192.0.2.1")


def reaches(values: Manifest, source: Endpoint, port: int = PORT) -> bool:
    rendered = chart.render(values)
    labels = one(rendered, "Deployment")["spec"]["template"]["metadata"]["labels"]
    policies = [item for item in rendered if item["kind"] == "NetworkPolicy"]
    return allows(policies, source, Endpoint(chart.NAMESPACE, labels), port)


def within(**value: object) -> Manifest:
    return {"operator": {"networkPolicy": value}}


@pytest.mark.parametrize("variant", ["default", "everything", "two namespaces"])
def test_prometheus_reads_the_metrics_and_no_one_else(variant: str) -> None:
    values = chart.VARIANTS[variant]
    assert reaches(values, PROMETHEUS)
    assert not reaches(values, PROMETHEUS, port=PORT + 1)
    assert not reaches(values, MEMBER)
    assert not reaches(values, OUTSIDE)


def test_the_peers_are_those_of_the_values() -> None:
    values = within(metricsFrom=[{"namespaceSelector": {"matchLabels": {"team": "ops"}}}])
    assert reaches(values, PROMETHEUS)
    other = Endpoint("other", PROMETHEUS.labels, {"team": "vision"})
    assert not reaches(values, other)


def test_without_peers_no_connection_is_allowed() -> None:
    assert not reaches(within(metricsFrom=[]), PROMETHEUS)


def test_the_policy_can_be_left_out() -> None:
    assert reaches(within(enabled=False), OUTSIDE)

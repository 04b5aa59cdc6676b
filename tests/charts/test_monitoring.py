"""The dashboard and the alerts use only metrics and labels that are exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

from imagenet_operator.clusters.kubernetes import metrics as of_operator
from imagenet_spec import metrics
from support import chart

DASHBOARD = json.loads((chart.FOLDER / "files" / "dashboard.json").read_text())
ALERTS = yaml.safe_load((chart.FOLDER / "files" / "alerts.yaml").read_text())["groups"]
RULES = {rule["alert"]: rule for group in ALERTS for rule in group["rules"]}
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"] if panel["type"] != "row"}
QUERIES = {
    **{f"alert {name}": rule["expr"] for name, rule in RULES.items()},
    **{
        f"panel {title} {target['refId']}": target["expr"]
        for title, panel in PANELS.items()
        for target in panel["targets"]
    },
    **{
        f"variable {variable['name']}": variable["query"]
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    },
}
EVERY_QUERY = pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)

FAILING = "alert ImageNetOperatorPassesFail"

# A series, or words in the place of one.
WORD = re.compile(r"(?<![\w$\"{])[a-z_][a-z0-9_]*(?![\w(\"])")
SERIES = re.compile(r"\b(?:imagenet|process)_\w+")
# By which labels is selected ({…}), grouped (by) or matched (on).
SELECTED = re.compile(r"(\w+)(?:=~|!~|!=|=)\"")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")


def _of_workloads() -> Iterator[tuple[str, set[str]]]:
    for metric in metrics.ALL:
        yield from _series(
            metric.name, set(metrics.LABELS), metric.kind is metrics.MetricType.HISTOGRAM
        )
    # Every pod has them, and with the pod's labels.
    for process in ("process_cpu_seconds_total", "process_resident_memory_bytes"):
        yield process, set(metrics.LABELS)


def _of_operator() -> Iterator[tuple[str, set[str]]]:
    for metric in vars(of_operator).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            name = f"{family.name}_total" if isinstance(metric, Counter) else family.name
            # There is no public access to labels without a value.
            yield from _series(name, set(metric._labelnames), isinstance(metric, Histogram))


def _series(name: str, labels: set[str], is_histogram: bool) -> Iterator[tuple[str, set[str]]]:
    if not is_histogram:
        yield name, labels
        return
    yield f"{name}_bucket", {*labels, "le"}
    yield f"{name}_sum", labels
    yield f"{name}_count", labels


EXPORTED = dict([*_of_workloads(), *_of_operator()])


def test_all_that_is_exported_is_known_here() -> None:
    assert len(EXPORTED) > len(metrics.ALL)
    assert isinstance(of_operator.REGISTRY, CollectorRegistry)
    of_ours = {
        family.name for family in of_operator.REGISTRY.collect() if "imagenet" in family.name
    }
    assert of_ours == {
        re.sub("_(total|bucket|sum|count)$", "", name)
        for name in EXPORTED
        if name.startswith(of_operator.PREFIX)
    }


@EVERY_QUERY
def test_a_query_asks_for_series_that_are_exported(query: str) -> None:
    asked = SERIES.findall(re.sub(r"__name__=~\"[^\"]*\"", "", query))
    assert set(asked) - {"imagenet_job"} <= EXPORTED.keys()
    assert asked


@EVERY_QUERY
def test_a_query_uses_labels_that_its_series_have(query: str) -> None:
    asked = set(SELECTED.findall(query)) - {"__name__"}
    for group in GROUPED.findall(query):
        asked |= {label.strip() for label in group.split(",")}
    labels = [EXPORTED[name] for name in SERIES.findall(query) if name in EXPORTED]
    # The scrape adds the instance; the variable of the jobs names no single series.
    known = {"instance", *(set.union(*labels) if labels else metrics.LABELS)}
    assert asked <= known


def test_a_wait_with_an_alert_of_its_own_is_none_of_a_job_that_does_not_start() -> None:
    asked = {name: rule["expr"] for name, rule in RULES.items() if "job_waiting{" in rule["expr"]}
    (left_out,) = re.findall(r'reason!~"([^"]+)"', asked.pop("ImageNetJobDoesNotStart"))
    reasons = {
        reason for query in asked.values() for reason in re.findall(r'reason="([^"]+)"', query)
    }
    assert reasons == set(left_out.split("|")) == {"Queued", "WaitingForJob"}


def test_only_the_watches_of_a_leader_are_an_alert() -> None:
    (asked,) = [query for query in QUERIES.values() if "imagenet_operator_watch_up" in query]
    assert "imagenet_operator_watch_up and on (instance) imagenet_operator_leader == 1" in asked


def test_an_alert_tells_of_passes_that_the_operator_counts() -> None:
    told = re.findall(r'imagenet_operator_passes_total\{result="(\w+)"\}', QUERIES[FAILING])
    # A series is there before the first pass, or its rate would miss that one.
    (passes,) = of_operator.RECONCILES.collect()
    assert told
    assert set(told) <= {sample.labels["result"] for sample in passes.samples}


@EVERY_QUERY
def test_a_query_is_balanced(query: str) -> None:
    outside = re.sub(r"\"[^\"]*\"", "", query)
    for opening, closing in ("()", "{}", "[]"):
        assert outside.count(opening) == outside.count(closing)


def test_the_dashboard_shows_what_a_person_looks_for() -> None:
    assert {
        "Images per second",
        "Epoch",
        "Loss",
        "Accuracy",
        "Data wait",
        "Stragglers",
        "Restarts",
        "Time by phase",
        "Goodput",
        "GPU-hours",
        "GPU use",
        "Progress",
    } <= PANELS.keys()


@pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)
def test_a_panel_says_what_it_shows_and_has_its_place(panel: chart.Manifest) -> None:
    assert panel["description"].endswith(".")
    place = panel["gridPos"]
    assert place["x"] + place["w"] <= 24
    assert all(target["legendFormat"] for target in panel["targets"])


def test_no_two_panels_have_one_number_or_overlap() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_alert_says_what_is_wrong_and_what_it_means(rule: chart.Manifest) -> None:
    assert set(rule["annotations"]) == {"summary", "description"}
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_alert_names_only_labels_that_its_expression_keeps(rule: chart.Manifest) -> None:
    told = " ".join(rule["annotations"].values())
    kept = {label.strip() for group in GROUPED.findall(rule["expr"]) for label in group.split(",")}
    assert set(re.findall(r"\$labels\.(\w+)", told)) <= kept


def test_helm_leaves_the_alerts_as_they_are() -> None:
    rendered = chart.render({"monitoring": {"prometheusRule": {"enabled": True}}})
    assert chart.one(rendered, "PrometheusRule")["spec"] == {"groups": ALERTS}


def test_how_long_a_job_may_wait_is_a_value() -> None:
    values = {"monitoring": {"prometheusRule": {"enabled": True, "waitingFor": "1h"}}}
    groups = chart.one(chart.render(values), "PrometheusRule")["spec"]["groups"]
    waits = {rule["alert"]: rule.get("for") for group in groups for rule in group["rules"]}
    assert waits == {name: rule.get("for") for name, rule in RULES.items()} | {
        "ImageNetJobDoesNotStart": "1h"
    }


def test_grafanas_sidecar_finds_the_dashboard() -> None:
    name = f"{chart.RELEASE}-dashboard"
    found = chart.one(chart.render({}), "ConfigMap", name)
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["imagenetjobs.json"]) == DASHBOARD

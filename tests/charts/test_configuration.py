"""The configuration that the chart writes is one that the operator reads, and says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from imagenet_operator import configuration
from imagenet_operator.configuration import Configuration
from imagenet_operator.manifests.settings import PUBLISHED
from imagenet_spec.frameworks.descriptor import Images
from support import chart

OPERATOR = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": chart.NAMESPACE}},
    "podSelector": {
        "matchLabels": {
            "app.kubernetes.io/name": "imagenet-operator",
            "app.kubernetes.io/instance": chart.RELEASE,
        }
    },
}


def written(values: chart.Manifest) -> Configuration:
    """Return the configuration that the chart writes, as the operator reads it."""
    name = values.get("fullnameOverride", chart.RELEASE)
    data = chart.one(chart.render(values), "ConfigMap", name)["data"]
    return configuration.parse(yaml.safe_load(data["configuration.yaml"]), "configuration.yaml")


@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_the_operator_reads_what_the_chart_writes(variant: str) -> None:
    assert written(chart.VARIANTS[variant]).namespaces == tuple(
        chart.VARIANTS[variant].get("watchNamespaces", ())
    )


def test_the_charts_defaults_are_the_operators_but_for_the_peers() -> None:
    found, default = written({}), Configuration()
    peers = found.settings.manifests.metrics_from
    assert peers[0] == OPERATOR
    bare = replace(found.settings.manifests, metrics_from=())
    assert replace(found, settings=replace(found.settings, manifests=bare)) == default


def test_pods_of_jobs_are_found_by_annotations_or_by_a_monitor() -> None:
    values: chart.Manifest = {"monitoring": {"podMonitor": {"enabled": True}}}
    assert not written(values).settings.manifests.scrape_annotations


def test_the_operator_stays_among_those_who_may_read_metrics() -> None:
    values: chart.Manifest = {"pods": {"networkPolicy": {"metricsFrom": []}}}
    assert written(values).settings.manifests.metrics_from == (OPERATOR,)


def test_the_peers_select_the_operators_pod() -> None:
    template = chart.one(chart.render({}), "Deployment")["spec"]["template"]
    selected = OPERATOR["podSelector"]["matchLabels"]
    assert selected.items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"gpuResource": "amd.com/gpu"}, {"gpu_resource": "amd.com/gpu"}),
        ({"user": 2000, "group": 3000}, {"user": 2000, "group": 3000}),
        ({"user": 1234567890}, {"user": 1234567890}),
        ({"metricsPort": 9191}, {"metrics_port": 9191}),
        ({"safeToEvict": False}, {"safe_to_evict": False}),
        ({"podDisruptionBudget": True}, {"pod_disruption_budget": True}),
        ({"sharedMemorySize": "16Gi"}, {"shared_memory_size": "16Gi"}),
        ({"scratchSize": "100G"}, {"scratch_size": "100G"}),
        ({"imagePullPolicy": "Never"}, {"image_pull_policy": "Never"}),
        ({"networkPolicy": {"enabled": False}}, {"network_policy": False}),
        ({"preparationImage": {"repository": "ours"}}, {"preparation_image": "ours:0.2.0"}),
        (
            {"images": {"mxnet": {"cpu": {"repository": "ours", "tag": "2"}}}},
            {
                "images": {
                    **PUBLISHED,
                    "MXNet": Images(cpu="ours:2", gpu="imagenet-workloads-mxnet-cu112:0.2.0"),
                }
            },
        ),
    ],
    ids=lambda value: "-".join(value),
)
def test_a_value_for_pods_arrives(values: dict[str, Any], found: dict[str, Any]) -> None:
    settings = written({"pods": values}).settings.manifests
    assert {name: getattr(settings, name) for name in found} == found


def test_the_template_profile_arrives() -> None:
    found = written({"templates": {"profile": "strict"}})
    assert found.settings.manifests.template_profile == "strict"


def test_the_namespace_of_the_leases_arrives() -> None:
    assert written({}).lease_namespace == configuration.LEASE_NAMESPACE == "kube-system"
    assert written({"leaseNamespace": "ops"}).lease_namespace == "ops"


def test_times_arrive() -> None:
    found = written(
        {
            "sampler": {"intervalSeconds": 60, "timeoutSeconds": 0.5, "enabled": False},
            "restarts": {
                "delaySeconds": 1.5,
                "delayLimitSeconds": 7200,
                "disruptionLimit": 1000000,
            },
        }
    )
    sampler, settings = found.sampler, found.settings
    assert (sampler.interval_seconds, sampler.timeout_seconds, sampler.enabled) == (60, 0.5, False)
    assert settings.restart_delay.total_seconds() == 1.5
    assert settings.restart_delay_limit.total_seconds() == 7200
    assert settings.disruption_limit == 1000000

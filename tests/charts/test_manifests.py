"""What the chart installs: whole, closed by default, and consistent with itself."""

from __future__ import annotations

from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.generate import admission, crd
from imagenet_operator.generate import files as generate
from support import chart
from support.chart import Manifest, one
from support.job_table import manifest, members, read

CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
EVERY_VARIANT = pytest.mark.parametrize("variant", chart.VARIANTS)


def manifests(variant: str = "default") -> list[Manifest]:
    """Return what one set of values installs."""
    return chart.render(chart.VARIANTS[variant])


def pod(variant: str = "default") -> Manifest:
    """Return the operator's pod template."""
    template: Manifest = one(manifests(variant), "Deployment")["spec"]["template"]
    return template


@EVERY_VARIANT
def test_every_object_has_its_kind_its_name_and_its_place(variant: str) -> None:
    places = set()
    for item in manifests(variant):
        metadata = item["metadata"]
        assert item["apiVersion"]
        assert ("namespace" in metadata) == (item["kind"] not in CLUSTER_SCOPED), item["kind"]
        places.add((item["kind"], metadata.get("namespace"), metadata["name"]))
    assert len(places) == len(manifests(variant))


@EVERY_VARIANT
def test_every_object_says_what_it_belongs_to(variant: str) -> None:
    for item in manifests(variant):
        labels = item["metadata"]["labels"]
        suffix = "-test" if item["kind"] == "Pod" else ""
        assert labels["app.kubernetes.io/name"] == f"imagenet-operator{suffix}"
        assert labels["app.kubernetes.io/instance"] == chart.RELEASE
        assert all(isinstance(value, str) for value in labels.values())


@EVERY_VARIANT
def test_no_field_is_left_empty(variant: str) -> None:
    def empty(value: Any) -> bool:
        if isinstance(value, dict):
            return any(empty(child) for child in value.values())
        if isinstance(value, list):
            return any(empty(child) for child in value)
        return value is None or value == ""

    core = [item for item in manifests(variant) if item["kind"] != "CustomResourceDefinition"]
    # An empty group is the core's.
    for item in core:
        for rule in item.get("rules", ()):
            rule["apiGroups"] = [group or "core" for group in rule["apiGroups"]]
    assert [item["kind"] for item in core if empty(item)] == []


@EVERY_VARIANT
def test_the_operator_runs_under_the_restricted_standard(variant: str) -> None:
    spec = pod(variant)["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_an_upgrade_replaces_one_replica_at_a_time_and_adds_none() -> None:
    spec = one(manifests(), "Deployment")["spec"]
    assert spec["replicas"] == 2
    limits = {"maxSurge": 0, "maxUnavailable": 1}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": limits}


@EVERY_VARIANT
def test_replicas_prefer_nodes_of_their_own(variant: str) -> None:
    anti = pod(variant)["spec"]["affinity"]["podAntiAffinity"]
    (preferred,) = anti["preferredDuringSchedulingIgnoredDuringExecution"]
    term = preferred["podAffinityTerm"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    labels = pod(variant)["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert anti.keys() == {"preferredDuringSchedulingIgnoredDuringExecution"}


def test_a_drain_leaves_one_of_several_replicas() -> None:
    budget = one(manifests(), "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()
    single = chart.render({"operator": {"replicas": 1}})
    assert one(single, "Deployment")["spec"]["replicas"] == 1
    assert "PodDisruptionBudget" not in {item["kind"] for item in single}


@EVERY_VARIANT
def test_the_selectors_select_the_operators_pod(variant: str) -> None:
    labels = pod(variant)["metadata"]["labels"]
    deployment, service = one(manifests(variant), "Deployment"), one(manifests(variant), "Service")
    for selector in (deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"]):
        assert selector.items() <= labels.items()


def test_probes_and_service_name_a_port_that_is_there() -> None:
    (container,) = pod()["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 8080}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    (port,) = one(manifests(), "Service")["spec"]["ports"]
    assert port["targetPort"] == "http"


@EVERY_VARIANT
def test_the_operator_is_found_by_annotations_or_by_a_monitor(variant: str) -> None:
    """With both, Prometheus would have each series twice."""
    annotations = pod(variant)["metadata"]["annotations"]
    found = {name: value for name, value in annotations.items() if name.startswith("prometheus.io")}
    assert found == (
        {}
        if has_monitors(variant)
        else {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "8080",
            "prometheus.io/path": "/metrics",
        }
    )


def has_monitors(variant: str) -> bool:
    monitoring = chart.VARIANTS[variant].get("monitoring", {})
    return bool(monitoring.get("podMonitor", {}).get("enabled"))


def test_another_configuration_makes_another_pod() -> None:
    def checksum(values: Manifest) -> str:
        template = one(chart.render(values), "Deployment")["spec"]["template"]
        found: str = template["metadata"]["annotations"]["checksum/configuration"]
        return found

    assert checksum({"pods": {"metricsPort": 9191}}) != checksum({})
    assert checksum({"operator": {"podLabels": {"team": "vision"}}}) == checksum({})


def test_the_versions_are_one() -> None:
    description = yaml.safe_load((chart.FOLDER / "Chart.yaml").read_text())
    released = {description["version"], description["appVersion"]}
    ours = ("imagenet-operator", "imagenet-spec", "imagenet-workloads")
    assert released == {version(name) for name in ours}
    for package, asked in (
        ("imagenet-operator", "imagenet-spec[resource]"),
        ("imagenet-workloads", "imagenet-spec"),
    ):
        assert f"{asked}=={description['version']}" in (requires(package) or ())


def test_a_registry_goes_before_every_image() -> None:
    (container,) = pod("everything")["spec"]["containers"]
    assert container["image"] == f"registry.example/team/imagenet-operator:{_version()}"
    configuration = one(manifests("everything"), "ConfigMap", "vision")["data"]
    written = yaml.safe_load(configuration["configuration.yaml"])
    preparation = f"registry.example/team/imagenet-workloads-preparation:{_version()}"
    assert written["preparationImage"] == preparation
    assert written["images"]["mxnet"] == {
        "cpu": f"registry.example/team/imagenet-workloads-mxnet:{_version()}",
        "gpu": f"registry.example/team/imagenet-workloads-mxnet-cu112:{_version()}",
    }


def _version() -> str:
    return version("imagenet-operator")


def test_the_definition_is_the_generated_one_and_kept() -> None:
    installed = one(manifests(), "CustomResourceDefinition")
    made = crd.definition()
    assert installed["spec"] == made["spec"]
    assert installed["metadata"]["name"] == made["metadata"]["name"]
    assert installed["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert yaml.safe_load((chart.REPOSITORY / generate.CRD).read_text()) == made


def test_the_admission_policy_is_the_generated_one_and_bound() -> None:
    installed = one(manifests(), "ValidatingAdmissionPolicy")
    assert installed["spec"] == admission.policy()
    binding = one(manifests(), "ValidatingAdmissionPolicyBinding")
    assert binding["spec"] == {
        "policyName": installed["metadata"]["name"],
        "validationActions": ["Deny"],
    }


def test_the_admission_policy_is_bound_to_the_namespaces_of_the_operator() -> None:
    binding = one(manifests("two namespaces"), "ValidatingAdmissionPolicyBinding")
    (expression,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert expression == {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": ["vision", "research"],
    }


def test_without_the_api_or_the_wish_there_is_no_admission_policy() -> None:
    kinds = {item["kind"] for item in manifests("least")}
    assert not {kind for kind in kinds if kind.startswith("Validating")}
    rendered = chart.run({}, served=()).stdout
    assert "kind: Deployment" in rendered and "Validating" not in rendered


def test_the_definition_may_go_with_the_operator_or_not_come_at_all() -> None:
    installed = one(chart.render({"crds": {"keep": False}}), "CustomResourceDefinition")
    assert "annotations" not in installed["metadata"]
    kinds = {item["kind"] for item in chart.render({"crds": {"install": False}})}
    assert "CustomResourceDefinition" not in kinds


def test_an_older_kubernetes_is_refused() -> None:
    assert "kubeVersion" in chart.run({}, "--kube-version", "1.28.15").stderr
    assert chart.run({}, "--kube-version", "1.29.0").returncode == 0
    assert chart.run({}, "--kube-version", "v1.31.4-gke.1183000").returncode == 0


@EVERY_VARIANT
def test_the_monitors_select_the_pods_that_there_are(variant: str) -> None:
    monitors = [item for item in manifests(variant) if item["kind"] == "PodMonitor"]
    assert len(monitors) == (2 if has_monitors(variant) else 0)
    member = members(read(manifest()))[0]
    for monitor in monitors:
        selected = member if monitor["metadata"]["name"].endswith("-jobs") else pod(variant)
        wanted = monitor["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= selected["metadata"]["labels"].items()
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        (container,) = selected["spec"]["containers"]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}
        # Otherwise the namespace of the job is replaced by that of the operator.
        assert endpoint["honorLabels"] is True


def test_the_notes_say_what_to_type_next(tmp_path: Path) -> None:
    assert commands(chart.notes({}, tmp_path / "all")) == [
        "kubectl -n imagenet-operator rollout status deployment/imagenet-operator",
        "helm -n imagenet-operator test imagenet-operator",
        "kubectl get imagenetjobs --all-namespaces",
    ]
    listed = {"watchNamespaces": ["vision", "research"], "tests": {"enabled": False}}
    assert commands(chart.notes(listed, tmp_path / "listed"))[1:] == [
        "kubectl get imagenetjobs -n vision"
    ]


def commands(notes: str) -> list[str]:
    """Return the lines of the notes that are to be typed."""
    return [line.strip() for line in notes.splitlines() if line.startswith("  ")]

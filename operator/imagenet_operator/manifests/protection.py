"""The protection of pods: NetworkPolicies and PodDisruptionBudgets, created before the pods.

A parameter server trusts every connection (docs/security.md), so only members of an attempt may
connect to each other. Egress is not restricted: storage and DNS differ between clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from imagenet_operator.manifests import labels, names
from imagenet_operator.manifests.settings import Settings
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest, copied

NETWORK_POLICY = "NetworkPolicy"
DISRUPTION_BUDGET = "PodDisruptionBudget"


def of_attempt(job: ImageNetJob, attempt: int, members: int, settings: Settings) -> list[Manifest]:
    """Return the protection of an attempt's pods."""
    found = []
    select = {"matchLabels": labels.select_attempt(job.metadata.name, attempt)}
    metadata = {
        "name": names.service(job.metadata.name, attempt),
        "labels": labels.of_attempt(job.metadata.name, attempt, "members"),
    }
    if settings.network_policy:
        # All ports: members choose the ports between them.
        rules = [{"from": [{"podSelector": select}]}, *_metrics(settings)]
        found.append(_network_policy(job, metadata, select, rules))
    if settings.pod_disruption_budget:
        # For pods without a scalable controller, a budget can have only minAvailable.
        spec = {"minAvailable": members, "selector": select}
        found.append(_child(job, "policy/v1", DISRUPTION_BUDGET, metadata, spec))
    return found


def of_preparation(job: ImageNetJob, settings: Settings) -> list[Manifest]:
    """Return the protection of the preparation's pods, which accept no connections."""
    if not settings.network_policy:
        return []
    name = job.metadata.name
    select = {
        "matchLabels": {labels.JOB_NAME: name},
        "matchExpressions": [{"key": labels.ATTEMPT, "operator": "DoesNotExist"}],
    }
    metadata = {
        "name": names.preparation(name),
        "labels": labels.of_child(name, "preparation"),
    }
    return [_network_policy(job, metadata, select, _metrics(settings))]


def _metrics(settings: Settings) -> list[Manifest]:
    """Return the rule for the metrics port, if anything may reach it.

    A rule without peers would admit all.
    """
    if not settings.metrics_from:
        return []
    port = {"protocol": "TCP", "port": settings.metrics_port}
    return [{"from": list(settings.metrics_from), "ports": [port]}]


def _network_policy(
    job: ImageNetJob, metadata: Mapping[str, Any], select: Manifest, rules: list[Manifest]
) -> Manifest:
    spec = {"podSelector": select, "policyTypes": ["Ingress"], "ingress": rules}
    return _child(job, "networking.k8s.io/v1", NETWORK_POLICY, metadata, spec)


def _child(
    job: ImageNetJob, version: str, kind: str, metadata: Mapping[str, Any], spec: Manifest
) -> Manifest:
    built = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            **metadata,
            "namespace": job.metadata.namespace,
            "ownerReferences": [labels.owner(job)],
        },
        "spec": spec,
    }
    return copied(built)

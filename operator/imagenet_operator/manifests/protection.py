"""What stands around pods: who may connect to them, and whether the cluster may move them.

`attempt` and `dataset` create these before the pods that they select. A parameter server believes
whatever reaches its port (docs/security.md), so an attempt is open to its own members alone; the
one port that others may be let in to, by the operator's configuration, is that of the metrics.
What pods connect to themselves is not restricted: storage and name services differ by cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.base import Manifest, copied
from imagenet_operator.manifests import labels, names
from imagenet_operator.manifests.settings import Settings

NETWORK_POLICY = "NetworkPolicy"
DISRUPTION_BUDGET = "PodDisruptionBudget"


def of_attempt(job: ImageNetJob, attempt: int, members: int, settings: Settings) -> list[Manifest]:
    """Return what protects the pods of an attempt, as far as the settings ask for it.

    Args:
        job: The job.
        attempt: The N of ``NAME-rN``.
        members: How many pods the attempt has.
        settings: The operator's configuration.
    """
    found = []
    select = {"matchLabels": labels.select_attempt(job.metadata.name, attempt)}
    metadata = {
        "name": names.service(job.metadata.name, attempt),
        "labels": labels.of_attempt(job.metadata.name, attempt, "members"),
    }
    if settings.network_policy:
        # Every port: which of them members use among themselves is theirs to say.
        rules = [{"from": [{"podSelector": select}]}, *_metrics(settings)]
        found.append(_network_policy(job, metadata, select, rules))
    if settings.pod_disruption_budget:
        # Of pods without a controller that scales, a budget may only say how many have to stay.
        spec = {"minAvailable": members, "selector": select}
        found.append(_child(job, "policy/v1", DISRUPTION_BUDGET, metadata, spec))
    return found


def of_preparation(job: ImageNetJob, settings: Settings) -> list[Manifest]:
    """Return what protects the pods of index, pack and seal, which nobody has to reach."""
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
    """Return the rule for the metrics port; none where nobody is let in.

    A rule without peers would let everybody in.
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

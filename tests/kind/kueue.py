"""Kueue on a cluster of stories: its own chart, with its manager as an image of this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from kind import controllers
from kind.cluster import Cluster
from kind.kubectl import SECONDS, Kubectl, KubectlError, Manifest
from support.processes import wait_until

API = "kueue.x-k8s.io/v1beta2"
NAMESPACE = "kueue-system"
MANAGER = "kueue-controller-manager"

PAGE = Path(__file__).resolve().parents[2] / "docs" / "queues.md"
_OF_PAGE = re.compile(r"^```yaml\n(integrations:.*?)^```$", re.DOTALL | re.MULTILINE)

_CONFIGURATION_FILE = "controller_manager_config.yaml"

# What the chart has, without the frameworks; the page has them.
_CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "health": {"healthProbeBindAddress": ":8081"},
    "metrics": {"bindAddress": ":8443"},
    "webhook": {"port": 9443},
    "leaderElection": {"leaderElect": True, "resourceName": "kueue"},
    "clientConnection": {"qps": 50, "burst": 100},
}


def install(cluster: Cluster) -> None:
    """Build Kueue where it is missing, install it, and wait until it is ready."""
    manager = {
        "image": controllers.image("kueue"),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "podSecurityContext": {"runAsNonRoot": True, "runAsUser": 65532},
    }
    # A JSON document is a YAML one.
    (said,) = _OF_PAGE.findall(PAGE.read_text())
    whole = {**_CONFIGURATION, **yaml.safe_load(said)}
    configuration = {"controllerManagerConfigYaml": json.dumps(whole)}
    values = {"controllerManager": {"manager": manager}, "managerConfig": configuration}
    controllers.install(cluster, "kueue", NAMESPACE, values)


def manage_all(cluster: Cluster, manages: bool) -> None:
    """Have Kueue hold what names no queue, too, or no longer; wait until it does so."""
    kubectl = cluster.kubectl.within(NAMESPACE)
    (stored,) = (
        item for item in kubectl.all("configmaps") if _CONFIGURATION_FILE in item.get("data", {})
    )
    whole = yaml.safe_load(stored["data"][_CONFIGURATION_FILE])
    whole["manageJobsWithoutQueueName"] = manages
    change = {"data": {_CONFIGURATION_FILE: json.dumps(whole)}}
    kubectl.patch("configmaps", stored["metadata"]["name"], change)
    scale(cluster, 0)
    scale(cluster, 1)


def kill(cluster: Cluster) -> None:
    """Delete Kueue's pod without a grace period, and wait until another one is in its place."""
    kubectl = cluster.kubectl.within(NAMESPACE)
    killed = {pod["metadata"]["name"] for pod in kubectl.all("pods")}
    for name in killed:
        kubectl.delete("pods", name, grace_seconds=0)

    def is_ready(pod: Manifest) -> bool:
        conditions = pod.get("status", {}).get("conditions", ())
        return pod["metadata"]["name"] not in killed and any(
            (item["type"], item["status"]) == ("Ready", "True") for item in conditions
        )

    kubectl.wait_until("pods", lambda pods: any(map(is_ready, pods.values())))
    _wait_for_webhooks(kubectl)


def scale(cluster: Cluster, replicas: int) -> None:
    """Stop Kueue, or start it again, and wait until it is so."""
    kubectl = cluster.kubectl.within(NAMESPACE)
    kubectl("scale", "deployment", MANAGER, f"--replicas={replicas}")
    if replicas:
        kubectl("rollout", "status", f"deployment/{MANAGER}", f"--timeout={SECONDS:.0f}s")
        _wait_for_webhooks(kubectl)
    else:
        kubectl.wait_until("pods", lambda pods: not pods)


def _wait_for_webhooks(kubectl: Kubectl) -> None:
    """Wait until webhooks answer; Kueue is ready before, and nothing of it is changed without."""
    flavor = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "tried"}}

    def answers() -> bool:
        try:
            # Lists are served from a cache, which asks no webhook.
            kubectl("create", "--dry-run=server", "--filename=-", given=json.dumps(flavor))
        except KubectlError:
            return False
        return True

    wait_until(answers, "Kueue's webhooks answer")

"""Asks whether a namespace of a chaos run refuses pods, without the operator."""

from __future__ import annotations

from kind.api_server import ApiServer
from kind.cluster import Cluster
from kind.kubectl import Manifest

_PROBE: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "example",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    },
}
"""A pod that a namespace of the run admits, unless something refuses all pods."""


def refusal(cluster: Cluster, namespace: str, words: str) -> str | None:
    """Return the refusal of a pod in a namespace, if it has these words."""
    server = ApiServer(cluster.kubeconfig)
    answer = server.send("POST", f"/api/v1/namespaces/{namespace}/pods", _PROBE)
    message: str = answer.body.get("message", "")
    return words if answer.is_refusal and words in message else None

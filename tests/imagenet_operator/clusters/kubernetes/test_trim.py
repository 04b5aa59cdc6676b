"""Trimming: what a pass reads of a pod is kept, and what nobody reads is not."""

from typing import Any

from imagenet_operator.clusters.kubernetes import trim

Manifest = dict[str, Any]
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def pod(**spec: Any) -> Manifest:
    return {
        "metadata": {"name": "p", "managedFields": [{}], "annotations": {"a": "b"}},
        "spec": {
            "containers": [{"name": "main", "image": "i", "env": [{}], "resources": {}}],
            "volumes": [{}],
            "tolerations": TOLERATIONS,
            **spec,
        },
        "status": {"phase": "Pending", "startTime": "2026-01-02T03:04:05Z"},
    }


def test_what_is_kept_of_a_pod_that_waits() -> None:
    gates = [{"name": "imagenet.dev/gang"}]
    assert trim.pod(pod(schedulingGates=gates)) == {
        "metadata": {"name": "p"},
        "spec": {
            "schedulingGates": gates,
            "tolerations": TOLERATIONS,
            "containers": [{"name": "main", "resources": {}}],
        },
        "status": {"phase": "Pending"},
    }


def test_where_a_pod_could_go_is_of_no_interest_once_it_is_there() -> None:
    assert "tolerations" not in trim.pod(pod(nodeName="n"))["spec"]


def test_the_taints_of_a_node_are_kept() -> None:
    taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
    node = {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}},
        "spec": {"taints": taints, "podCIDR": "10.0.0.0/24"},
        "status": {"conditions": [], "allocatable": {"cpu": "8"}, "images": [{}]},
    }
    assert trim.node(node) == {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"taints": taints},
        "status": {"conditions": [], "allocatable": {"cpu": "8"}},
    }

"""The cluster itself: what every other story takes for granted."""

from __future__ import annotations

from kind.cluster import Cluster
from kind.kubectl import Kubectl, Manifest

IMAGE = "imagenet-operator:0.2.0"
PORT = 8000


def member(name: str, node: str, program: str) -> Manifest:
    """A pod on one node, to be found as NAME.members."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"group": "members"}},
        "spec": {
            "hostname": name,
            "subdomain": "members",
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "member", "image": IMAGE, "command": ["python", "-u", "-c", program]}
            ],
        },
    }


def test_nodes_are_ready(cluster: Cluster) -> None:
    cluster.kubectl.wait("nodes --all", "condition=Ready")

    assert sorted(node["metadata"]["name"] for node in cluster.kubectl.all("nodes")) == sorted(
        cluster.nodes
    )


def test_pods_of_two_nodes_reach_each_other_by_name(cluster: Cluster, namespace: Kubectl) -> None:
    serve = f"""
from http.server import HTTPServer, SimpleHTTPRequestHandler
HTTPServer(("", {PORT}), SimpleHTTPRequestHandler).serve_forever()
"""
    # As members of a job do: the name may not resolve yet, nor the other be up.
    ask = """
import sys, time, urllib.request
while True:
    try:
        print(urllib.request.urlopen("http://{other}.members:{port}/", timeout=5).status)
        break
    except OSError as error:
        print(error)
        time.sleep(0.2)
"""
    first, second = cluster.workers
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "members"},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {"group": "members"},
                "ports": [{"port": PORT}],
            },
        },
        member("server-a", first, serve),
        member("server-b", second, serve),
        member("asks-a", second, ask.format(other="server-a", port=PORT)),
        member("asks-b", first, ask.format(other="server-b", port=PORT)),
    )

    for name in ("asks-a", "asks-b"):
        namespace.wait(f"pod/{name}", "jsonpath={.status.phase}=Succeeded")


def test_a_claim_of_the_default_storage_class_is_bound(namespace: Kubectl) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "writes"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "writes",
                    "image": IMAGE,
                    "command": ["sh", "-c", "echo something > /claim/file && cat /claim/file"],
                    "volumeMounts": [{"name": "claim", "mountPath": "/claim"}],
                }
            ],
            "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}}],
        },
    }

    namespace.apply(claim, pod)

    namespace.wait("pod/writes", "jsonpath={.status.phase}=Succeeded")
    assert namespace("logs", "writes") == "something\n"
    bound = namespace.get("persistentvolumeclaims", "claim")
    assert bound["spec"]["storageClassName"] == "standard"

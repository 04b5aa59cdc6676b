"""Connect the nodes' pods by plain routes, in place of a network plugin that comes as an image.

Each node gives its pods addresses of its range on a bridge, by the plugins in Debian's
package, and reaches every other node's range by a route. Nodes of kind share one network, so that
needs no tunnel. Routes do not outlive a node's restart: connect again after one.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

CONFIGURATION = "/etc/cni/net.d/10-bridge.conflist"


@dataclass(frozen=True)
class Node:
    """A node of the cluster: its name, its own address, and the range its pods' come from."""

    name: str
    address: str
    pod_range: str


def have_ranges(known: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> bool:
    """Say whether each named node is known to the API server, with the range of its pods.

    A node may join before it is known: since 1.34 kubeadm does not wait until its kubelet has
    registered it.

    Args:
        known: The Node objects that there are, by name.
        names: The nodes of the cluster.
    """
    return all(name in known and "podCIDR" in known[name]["spec"] for name in names)


def plugin_configuration(node: Node) -> str:
    """Return containerd's network configuration for the pods of a node."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isDefaultGateway": True,
        # Pods see each other's own addresses, on whatever node they are.
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": node.pod_range}]]},
    }
    port_map = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "bridge", "plugins": [bridge, port_map]})


def route_commands(node: Node, nodes: Iterable[Node]) -> list[list[str]]:
    """Return the commands that give a node its way to the pods of all others."""
    return [
        ["ip", "route", "replace", other.pod_range, "via", other.address]
        for other in nodes
        if other.name != node.name
    ]


def connect(nodes: Iterable[Node]) -> None:
    """Write every node's routes and, last, the file that makes the node ready."""
    nodes = list(nodes)
    for node in nodes:
        for command in route_commands(node, nodes):
            subprocess.run(["docker", "exec", node.name, *command], check=True)
        subprocess.run(
            [
                "docker",
                "exec",
                "--interactive",
                node.name,
                "sh",
                "-c",
                f"mkdir -p /etc/cni/net.d && cat > {CONFIGURATION}",
            ],
            input=plugin_configuration(node),
            text=True,
            check=True,
        )

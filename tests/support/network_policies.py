"""Whether a connection to a pod is allowed, by the NetworkPolicies of a cluster.

A model of what a CNI that enforces policies does with ingress, after the API's own definition
(networking.k8s.io/v1): a pod that no policy selects takes every connection; one that is selected
takes those that some rule of some of these policies allows. Nothing of the builders is used.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Endpoint:
    """A pod, or (without labels) an address outside of the cluster.

    Attributes:
        namespace: Of the pod.
        labels: Of the pod.
        namespace_labels: Of its namespace.
        address: Its IP address.
    """

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    address: str = "10.0.0.1"


def allows(
    policies: Iterable[Manifest],
    source: Endpoint,
    target: Endpoint,
    port: int,
    protocol: str = "TCP",
) -> bool:
    """Whether `source` may connect to a port of the pod `target`."""
    selecting = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == target.namespace
        and "Ingress" in policy["spec"].get("policyTypes", ["Ingress"])
        and matches(policy["spec"]["podSelector"], target.labels)
    ]
    return not selecting or any(
        _has_peer(rule, source, target.namespace) and _has_port(rule, port, protocol)
        for spec in selecting
        for rule in spec.get("ingress") or ()
    )


def matches(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects; an empty one selects everything."""
    exact = selector.get("matchLabels") or {}
    return exact.items() <= dict(labels).items() and all(
        _holds(expression, labels) for expression in selector.get("matchExpressions") or ()
    )


def _holds(expression: Manifest, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise AssertionError(f"{expression['operator']} is no operator of a selector")


def _has_peer(rule: Manifest, source: Endpoint, namespace: str) -> bool:
    """A rule without peers, or with an empty list of them, allows every source."""
    peers = rule.get("from") or ()
    return not peers or any(_is_peer(peer, source, namespace) for peer in peers)


def _is_peer(peer: Manifest, source: Endpoint, namespace: str) -> bool:
    assert peer.keys() <= {"podSelector", "namespaceSelector", "ipBlock"} and peer
    if "ipBlock" in peer:
        assert len(peer) == 1, "an ipBlock stands alone"
        address = ipaddress.ip_address(source.address)
        block = peer["ipBlock"]
        return address in ipaddress.ip_network(block["cidr"]) and not any(
            address in ipaddress.ip_network(excepted) for excepted in block.get("except") or ()
        )
    if "namespaceSelector" in peer:
        where = bool(source.namespace) and matches(
            peer["namespaceSelector"], source.namespace_labels
        )
    else:
        where = source.namespace == namespace
    return where and matches(peer.get("podSelector", {}), source.labels)


def _has_port(rule: Manifest, port: int, protocol: str) -> bool:
    """A rule without ports, or with an empty list of them, allows every port."""
    ports = rule.get("ports") or ()
    return not ports or any(_is_port(item, port, protocol) for item in ports)


def _is_port(item: Manifest, port: int, protocol: str) -> bool:
    if item.get("protocol", "TCP") != protocol:
        return False
    first = item.get("port")
    if first is None:
        return True
    assert isinstance(first, int), "named ports are not modelled"
    return first <= port <= int(item.get("endPort", first))

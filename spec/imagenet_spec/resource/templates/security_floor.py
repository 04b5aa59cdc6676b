"""The security floor of docs/security.md, which no template may lower.

It is the *restricted* Pod Security Standard of Kubernetes 1.34 (pod-security-admission), and
further: no token, a read-only root file system, no shared process namespace, no root group. A
sidecar or an init container may omit what the standard requires, but not set the opposite.

Null counts as a value, because it would delete the operator's value in the merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from imagenet_spec.errors import Problem
from imagenet_spec.resource.templates.conflicts import (
    Owned,
    conflict,
    directives,
    items,
    listed,
    misshapen,
    owned,
)

_FLOOR = "the operator's security floor"
_LINUX = f"{_FLOOR} is one of Linux"
_POD = {
    "hostNetwork": Owned(_FLOOR, (False,)),
    "hostPID": Owned(_FLOOR, (False,)),
    "hostIPC": Owned(_FLOOR, (False,)),
    "shareProcessNamespace": Owned(f"{_FLOOR} keeps the containers' processes apart", (False,)),
    "automountServiceAccountToken": Owned(f"{_FLOOR} mounts no token", (False,)),
    # The standard does not apply to Windows pods.
    "os": Owned(_LINUX, ({"name": "linux"},)),
}
_SECURITY = {
    "privileged": Owned(_FLOOR, (False,)),
    "allowPrivilegeEscalation": Owned(_FLOOR, (False,)),
    "runAsNonRoot": Owned(_FLOOR, (True,)),
    "readOnlyRootFilesystem": Owned(f"{_FLOOR} makes the root file system read-only", (True,)),
    "procMount": Owned(_FLOOR, ("Default",)),
    "windowsOptions": Owned(_LINUX),
}
_PROFILES = ("RuntimeDefault", "Localhost")
_CAPABILITIES = ("NET_BIND_SERVICE",)
_SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
_VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""The annotations of AppArmor profiles before Kubernetes 1.30, which are still read."""

_HANDLERS = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)


def of_annotations(annotations: Any, path: str) -> Iterator[Problem]:
    """Reject annotations that disable a container's AppArmor profile."""
    for name, value in annotations.items() if isinstance(annotations, dict) else ():
        is_profile = str(name).startswith(_APPARMOR) and value not in (None, "")
        if is_profile and value != "runtime/default" and not str(value).startswith("localhost/"):
            yield conflict(f"{path}[{name}]", _FLOOR, "remove it, or write runtime/default")


def of_pod(spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject pod fields that lower the floor, without containers and volumes."""
    yield from owned(spec, _POD, path)
    yield from _security(spec, path)


def of_container(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject fields that lower the floor of one container."""
    yield from _security(container, path)
    for _, place, port in items(container, "ports", path):
        if "hostPort" in port:
            yield conflict(f"{place}.hostPort", _FLOOR)
    for names in _HANDLERS:
        handler = _within(container, *names)
        for action in ("httpGet", "tcpSocket"):
            if _within(handler, action).get("host"):
                place = ".".join((path, *names, action, "host"))
                why = f"{_FLOOR} allows probes only of the pod"
                yield conflict(place, why, "remove it; a Host header belongs in httpHeaders")


def of_volume(volume: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject volumes of the node or of storage without a claim, and tokens."""
    for field in volume:
        if field not in ("name", *_VOLUMES) and not str(field).startswith("$"):
            yield conflict(f"{path}.{field}", _FLOOR, f"use a claim, or one of {_any(_VOLUMES)}")
    for _, place, source in items(_within(volume, "projected"), "sources", f"{path}.projected"):
        if "serviceAccountToken" in source:
            yield conflict(f"{place}.serviceAccountToken", f"{_FLOOR} mounts no token")
        if "podCertificate" in source:
            why = f"{_FLOOR} mounts no credentials of the pod"
            yield conflict(f"{place}.podCertificate", why)


def _security(parent: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject a securityContext of a pod or container that lowers the floor."""
    if "securityContext" not in parent:
        return
    context, path = parent["securityContext"], f"{path}.securityContext"
    yield from misshapen(context, dict, path)
    if not isinstance(context, dict):
        return
    yield from _directives_within(context, path)
    yield from owned(context, _SECURITY, path)
    yield from _users(context, path)
    for field in ("seccompProfile", "appArmorProfile"):
        if field in context and _within(context, field).get("type") not in _PROFILES:
            yield conflict(f"{path}.{field}", _FLOOR, "write {type: RuntimeDefault}")
    if "capabilities" in context:
        yield from _capabilities(context["capabilities"], f"{path}.capabilities")
    selinux = _within(context, "seLinuxOptions")
    if selinux.get("type") not in (None, "", *_SELINUX_TYPES):
        remedy = f"remove it, or write one of {_any(_SELINUX_TYPES)}"
        yield conflict(f"{path}.seLinuxOptions.type", _FLOOR, remedy)
    for field in ("user", "role"):
        if selinux.get(field):
            yield conflict(f"{path}.seLinuxOptions.{field}", _FLOOR)
    for name, place, _ in items(context, "sysctls", path):
        if name not in _SYSCTLS:
            yield conflict(f"{place}.name", _FLOOR, f"remove it, or write one of {_any(_SYSCTLS)}")


def _directives_within(value: Any, path: str) -> Iterator[Problem]:
    """Reject merge directives at any depth: here they could only remove values."""
    if isinstance(value, dict):
        yield from directives(value, path)
        for name, child in value.items():
            yield from _directives_within(child, f"{path}.{name}")
    for index, child in enumerate(value) if isinstance(value, list) else ():
        yield from _directives_within(child, f"{path}[{index}]")


def _users(context: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject root and its group, and the image's default for both."""
    remedy = "write a number above 0"
    for field in ("runAsUser", "runAsGroup"):
        if field in context and context[field] in (0, None):
            yield conflict(f"{path}.{field}", _FLOOR, remedy)
    if context.get("fsGroup") == 0:
        yield conflict(f"{path}.fsGroup", _FLOOR, remedy)
    for index, group in enumerate(listed(context.get("supplementalGroups"))):
        if group == 0:
            yield conflict(f"{path}.supplementalGroups[{index}]", _FLOOR, remedy)


def _capabilities(capabilities: Any, path: str) -> Iterator[Problem]:
    yield from misshapen(capabilities, dict, path)
    if not isinstance(capabilities, dict):
        return
    if any(name not in _CAPABILITIES for name in listed(capabilities.get("add"))):
        yield conflict(f"{path}.add", _FLOOR, f"remove it, or write [{_any(_CAPABILITIES)}]")
    if "drop" in capabilities and "ALL" not in listed(capabilities["drop"]):
        yield conflict(f"{path}.drop", _FLOOR, "remove it, or write [ALL]")


def _within(value: Any, *names: str) -> dict[str, Any]:
    """Return the object at a path; an empty one if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _any(values: tuple[str, ...]) -> str:
    return ", ".join(values)

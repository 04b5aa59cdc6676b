"""The *restricted* Pod Security Standard, and the table of docs/security.md, as a check of one pod.

Written from the standard's own words (kubernetes.io, Pod Security Standards; 1.34), and not from
what the operator looks for: a value that the operator forgets is one that this has to find. Allowed
values are listed, so that all others are violations. What Windows is spared is not spared here.
"""

from collections.abc import Iterator
from typing import Any

Manifest = dict[str, Any]

PROGRAM = "main"
PROFILES = {"RuntimeDefault", "Localhost"}
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
SYSCTLS = {
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
}
VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
    *("persistentVolumeClaim", "projected", "secret"),
}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def stored(value: Any) -> Any:
    """Return what an API server keeps of an object: no nulls, and no directives of a merge."""
    if isinstance(value, dict):
        return {
            name: stored(part)
            for name, part in value.items()
            if part is not None and not name.startswith("$")
        }
    return [stored(part) for part in value] if isinstance(value, list) else value


def violations(template: Manifest) -> list[str]:
    """Return where a PodTemplateSpec breaks the standard; empty if a namespace would take it."""
    template = stored(template)
    spec: Manifest = template["spec"]
    return [
        *_annotations(template.get("metadata", {}).get("annotations", {})),
        *_host(spec),
        *(found for volume in spec.get("volumes", []) for found in _volume(volume)),
        *_context(spec.get("securityContext", {}), "pod"),
        *(found for container in containers(spec) for found in _container(container, spec)),
    ]


def below_the_table(template: Manifest) -> list[str]:
    """Return where a PodTemplateSpec lowers what docs/security.md promises beyond the standard."""
    spec: Manifest = stored(template)["spec"]
    found = []
    if spec.get("automountServiceAccountToken") is not False:
        found.append("a token is mounted")
    for volume in spec.get("volumes", []):
        sources = volume.get("projected", {}).get("sources", [])
        if any("serviceAccountToken" in source for source in sources):
            found.append(f"a token is in the volume {volume['name']}")
        if any("podCertificate" in source for source in sources):
            found.append(f"a certificate of the pod is in the volume {volume['name']}")
    if spec.get("shareProcessNamespace", False):
        found.append("processes are shared")
    context = spec["securityContext"]
    groups = [context.get("runAsGroup"), context.get("fsGroup", 1)]
    groups += [*context.get("supplementalGroups", []), context.get("runAsUser")]
    if {0, None} & set(groups):
        found.append("root, its group, or whatever the image says")
    return found + [text for container in containers(spec) for text in _below(container)]


def containers(spec: Manifest) -> list[Manifest]:
    """Return all containers of a pod, whatever they are for."""
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return [container for kind in kinds for container in spec.get(kind, [])]


def _below(container: Manifest) -> Iterator[str]:
    """Yield what a container has beyond the table; others than the program's may say nothing."""
    context = container.get("securityContext", {})
    if not context.get("readOnlyRootFilesystem", container["name"] != PROGRAM):
        yield f"{container['name']} writes to its root file system"
    if context.get("runAsGroup", 1) == 0:
        yield f"{container['name']} runs as root's group"


def _annotations(annotations: Manifest) -> Iterator[str]:
    for name, profile in annotations.items():
        allowed = profile in {"", "runtime/default"} or profile.startswith("localhost/")
        if name.startswith(APPARMOR) and not allowed:
            yield f"annotation {name}: {profile}"


def _host(spec: Manifest) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field, False):
            yield field


def _volume(volume: Manifest) -> Iterator[str]:
    for kind in volume.keys() - {"name"} - VOLUMES:
        yield f"volume {volume['name']}: {kind}"


def _context(context: Manifest, of: str) -> Iterator[str]:
    """Yield what neither a pod's nor a container's context may say."""
    for field in ("seccompProfile", "appArmorProfile"):
        if field in context and context[field].get("type") not in PROFILES:
            yield f"{of}: {field} {context[field]}"
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield f"{of}: seLinuxOptions {selinux}"
    for sysctl in context.get("sysctls", []):
        if sysctl["name"] not in SYSCTLS:
            yield f"{of}: sysctl {sysctl['name']}"
    if context.get("windowsOptions", {}).get("hostProcess", False):
        yield f"{of}: hostProcess"
    if context.get("runAsNonRoot", True) is not True or context.get("runAsUser") == 0:
        yield f"{of}: root"


def _container(container: Manifest, spec: Manifest) -> Iterator[str]:
    name = container["name"]
    context, of_pod = container.get("securityContext", {}), spec.get("securityContext", {})
    yield from _context(context, name)
    for field in ("runAsNonRoot", "seccompProfile"):
        if field not in context and field not in of_pod:
            yield f"{name}: no {field}"
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: allowPrivilegeEscalation"
    if context.get("privileged", False) or context.get("procMount", "Default") != "Default":
        yield f"{name}: privileged, or a bare /proc"
    capabilities = context.get("capabilities", {})
    added = set(capabilities.get("add", []))
    if "ALL" not in capabilities.get("drop", []) or added - {"NET_BIND_SERVICE"}:
        yield f"{name}: capabilities {capabilities}"
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield f"{name}: hostPort"
    if any(_hosts(container)):
        yield f"{name}: a host to probe"


def _hosts(container: Manifest) -> Iterator[str]:
    lifecycle = container.get("lifecycle", {})
    handlers = [container.get(f"{kind}Probe", {}) for kind in ("liveness", "readiness", "startup")]
    for handler in (*handlers, lifecycle.get("postStart", {}), lifecycle.get("preStop", {})):
        for action in ("httpGet", "tcpSocket"):
            yield handler.get(action, {}).get("host", "")

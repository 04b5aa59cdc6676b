"""What docs/security.md promises of every pod holds for each template that `validate` takes.

Two tables: what is said of a field and where, and which values of each field are taken. Then any of
these together, merged into a pod as the operator does it, which another reading of the standard
(`support.pod_security`) judges.
"""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_spec.validate import validate
from support.sentences import assert_says
from support.worker_templates import APPARMOR, WORKERS, Manifest, document, pod

FLOOR = ("cannot be overridden", "the operator's security floor")
REMOVES = ("cannot be overridden", "would remove", "fields that the operator sets", "remove it")
VOLUMES = (
    "one of configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, "
    "projected, secret"
)
SYSCTLS = (
    "kernel.shm_rmid_forced, net.ipv4.ip_local_port_range, net.ipv4.ip_local_reserved_ports, "
    "net.ipv4.ip_unprivileged_port_start, net.ipv4.ping_group_range, net.ipv4.tcp_fin_timeout, "
    "net.ipv4.tcp_keepalive_intvl, net.ipv4.tcp_keepalive_probes, net.ipv4.tcp_keepalive_time, "
    "net.ipv4.tcp_rmem, net.ipv4.tcp_syncookies, net.ipv4.tcp_wmem"
)
SELINUX = "container_t, container_init_t, container_kvm_t, container_engine_t"


def context(**fields: Any) -> Manifest:
    return pod(securityContext=fields)


def main(**fields: Any) -> Manifest:
    return pod(containers=[{"name": "main", **fields}])


def of_main(**fields: Any) -> Manifest:
    return main(securityContext=fields)


REFUSED: list[tuple[Manifest, str, tuple[str, ...]]] = [
    (
        pod(automountServiceAccountToken=True),
        "spec.automountServiceAccountToken",
        (*FLOOR, "no token", "remove it", "or write false"),
    ),
    (
        pod(volumes=[{"name": "t", "projected": {"sources": [{"serviceAccountToken": {}}]}}]),
        "spec.volumes[0].projected.sources[0].serviceAccountToken",
        (*FLOOR, "no token", "remove it"),
    ),
    (
        of_main(readOnlyRootFilesystem=False),
        "spec.containers[0].securityContext.readOnlyRootFilesystem",
        (*FLOOR, "root file system read-only", "remove it", "or write true"),
    ),
    (
        pod(shareProcessNamespace=True),
        "spec.shareProcessNamespace",
        (*FLOOR, "processes apart", "remove it", "or write false"),
    ),
    (pod(hostPID=True), "spec.hostPID", (*FLOOR, "remove it", "or write false")),
    (
        pod(os={"name": "windows"}),
        "spec.os",
        (*FLOOR, "Linux", "remove it", 'or write {"name": "linux"}'),
    ),
    (
        context(windowsOptions={"hostProcess": True}),
        "spec.securityContext.windowsOptions",
        (*FLOOR, "Linux", "remove it"),
    ),
    (
        context(appArmorProfile={"type": "Unconfined"}),
        "spec.securityContext.appArmorProfile",
        (*FLOOR, "write {type: RuntimeDefault}"),
    ),
    (
        {"metadata": {"annotations": {APPARMOR: "unconfined"}}},
        f"metadata.annotations[{APPARMOR}]",
        (*FLOOR, "remove it", "or write runtime/default"),
    ),
    (
        of_main(seccompProfile={"type": "RuntimeDefault", "$patch": "delete"}),
        "spec.containers[0].securityContext.seccompProfile.$patch",
        REMOVES,
    ),
    (
        context(seccompProfile={"type": "RuntimeDefault", "$retainKeys": ["type"]}),
        "spec.securityContext.seccompProfile.$retainKeys",
        REMOVES,
    ),
    (
        of_main(capabilities={"drop": ["ALL"], "$patch": "replace"}),
        "spec.containers[0].securityContext.capabilities.$patch",
        REMOVES,
    ),
    (
        of_main(capabilities={"add": ["SYS_ADMIN"]}),
        "spec.containers[0].securityContext.capabilities.add",
        (*FLOOR, "remove it", "or write [NET_BIND_SERVICE]"),
    ),
    (
        of_main(seLinuxOptions={"type": "spc_t"}),
        "spec.containers[0].securityContext.seLinuxOptions.type",
        (*FLOOR, "remove it", "or write", SELINUX),
    ),
    (
        context(seLinuxOptions={"role": "system_r"}),
        "spec.securityContext.seLinuxOptions.role",
        (*FLOOR, "remove it"),
    ),
    (
        context(sysctls=[{"name": "kernel.msgmax", "value": "65536"}]),
        "spec.securityContext.sysctls[0].name",
        (*FLOOR, "remove it", "or write", SYSCTLS),
    ),
    (
        context(supplementalGroups=[2000, 0]),
        "spec.securityContext.supplementalGroups[1]",
        (*FLOOR, "write a number above 0"),
    ),
    (
        of_main(runAsGroup=0),
        "spec.containers[0].securityContext.runAsGroup",
        (*FLOOR, "write a number above 0"),
    ),
    (
        pod(volumes=[{"name": "cache", "nfs": {"server": "a", "path": "/"}}]),
        "spec.volumes[0].nfs",
        (*FLOOR, "a claim", VOLUMES),
    ),
    (
        main(livenessProbe={"httpGet": {"port": 80, "host": "169.254.169.254"}}),
        "spec.containers[0].livenessProbe.httpGet.host",
        (*FLOOR, "probes only of the pod", "remove it", "Host", "httpHeaders"),
    ),
    (
        pod(ephemeralContainers=[{"name": "debug", "image": "busybox"}]),
        "spec.ephemeralContainers",
        (
            "cannot be given",
            "only to an existing pod",
            "containers or initContainers",
            "or use kubectl debug",
        ),
    ),
    (
        main(restartPolicy="Always"),
        "spec.containers[0].restartPolicy",
        ("cannot be overridden", "restarts whole attempts", "remove it"),
    ),
]


@pytest.mark.parametrize(
    ("template", "path", "facts"), REFUSED, ids=[path for _, path, _ in REFUSED]
)
def test_what_lowers_the_floor_is_refused_with_its_place_and_a_remedy(
    template: Manifest, path: str, facts: tuple[str, ...]
) -> None:
    (problem,) = validate(document(template))
    assert problem.path == f"{WORKERS}.{path}"
    assert_says(str(problem), f"{path}: ", *facts)

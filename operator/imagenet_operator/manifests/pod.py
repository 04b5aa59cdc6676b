"""The PodTemplateSpec of every program of a job.

`dataset` and `attempt` describe the differences between pods as a `Program`. This module adds what
all pods share. The user's template is merged over it last (`template`).

Both clusters run these pods, so they use a small part of Kubernetes, which a test checks. The
command is a console script, arguments refer to `$(VAR)`, and variables are literals or the pod's
own name and address. Paths come from the mounts' variables, and peers have Service names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from imagenet_operator.manifests import labels, names, template
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.volumes import Mount
from imagenet_spec.names import (
    IMAGENET_CACHE,
    IMAGENET_CREDENTIALS,
    IMAGENET_JOB,
    IMAGENET_JOB_UID,
    IMAGENET_METRICS_PORT,
    IMAGENET_NAMESPACE,
    IMAGENET_PODS_ON_NODE,
    IMAGENET_ROLE,
    IMAGENET_SCRATCH,
    IMAGENET_START_CREDENTIALS,
    IMAGENET_TERMINATION_LOG,
    IMAGENET_TRACKING,
    IMAGENET_TRACKING_CREDENTIALS,
    POD_IP,
    POD_NAME,
)
from imagenet_spec.resource import ImageNetJob, quantities
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.fields import INT32_MAXIMUM
from imagenet_spec.resource.templates.own_program import OwnProgram
from imagenet_spec.resource.training import Cache

SCRATCH = "/scratch"
CREDENTIALS = "credentials"
CREDENTIALS_PATH = f"/{CREDENTIALS}"
START_CREDENTIALS = "start-credentials"
TRACKING_CREDENTIALS = "tracking-credentials"
CACHE_PATH = "/cache"
SHARED_MEMORY = "shared-memory"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
TERMINATION_LOG = "/dev/termination-log"


@dataclass(frozen=True)
class Program:
    """The differences between pods. Secrets are mounted as files.

    Attributes:
        secret: That of its credentials.
        start_secret: That of the uploaded results from which it starts.
        tracking: The arguments of the program beside its first replica, as JSON; None without one.
        tracking_secret: That of the program beside its first replica.
        cache: The volume for what it reads from a bucket or a server.
        shared_memory: Whether its processes need more of /dev/shm than the container runtime's 64
            MiB.
        memory: The request of a pod whose template has no memory; None if unknown.
        leaves_result: Whether its termination message has a result after success.
        reports_readiness: Whether its metrics server reports readiness.
        grace_period_seconds: How long it may take from SIGTERM to its end.
        shares_node: Whether all pods of its role and attempt must run on one node.
        own_program: Whether the template may run another program.
    """

    role: str
    command: str
    arguments: tuple[str, ...]
    image: str
    grace_period_seconds: int
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    secret: str | None = None
    start_secret: str | None = None
    tracking: str | None = None
    tracking_secret: str | None = None
    cache: Cache | None = None
    gpus: int = 0
    shared_memory: bool = False
    memory: str | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    leaves_result: bool = False
    reports_readiness: bool = False
    shares_node: bool = False
    gated: bool = False
    template: Mapping[str, Any] | None = None
    template_path: str = ""
    own_program: OwnProgram = OwnProgram.NEVER


def of_user(settings: Settings) -> Manifest:
    """Return the securityContext of a pod: its user and group, who own the files on volumes."""
    return {
        "runAsNonRoot": True,
        "runAsUser": settings.user,
        "runAsGroup": settings.group,
        "fsGroup": settings.group,
        # Otherwise the kubelet would change the owner of every file at each start of a pod.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def unprivileged() -> Manifest:
    """Return the securityContext of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
    }


def of_one_node(pods: int, shares_node: bool, settings: Settings) -> dict[str, str]:
    """Return the variable by which pods without a CPU limit and request divide a node's cores."""
    on_node = pods if shares_node or settings.one_node else 1
    return {IMAGENET_PODS_ON_NODE: str(on_node)} if on_node > 1 else {}


def pod_template(
    job: ImageNetJob, program: Program, pod_labels: Mapping[str, str], settings: Settings
) -> Manifest:
    """Return the PodTemplateSpec of a program, merged with the user's template.

    Raises:
        InvalidTemplate: The user's template is invalid, or sets a field that the operator owns.
    """
    secrets = [{"name": secret.name} for secret in job.spec.training.image_pull_secrets]
    spec: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": program.grace_period_seconds,
        **({"imagePullSecrets": secrets} if secrets else {}),
        "securityContext": of_user(settings),
        "containers": [_container(job, program, settings)],
        "volumes": _volumes(program, settings),
    }
    annotations = {}
    if settings.scrape_annotations:
        annotations = {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(settings.metrics_port),
            "prometheus.io/path": "/metrics",
        }
    if settings.safe_to_evict is not None:
        annotations[SAFE_TO_EVICT] = str(settings.safe_to_evict).lower()
    metadata = {"labels": dict(pod_labels), "annotations": annotations}
    built: Manifest = {"metadata": metadata, "spec": spec}
    merged = template.merge(
        built,
        program.template,
        program.template_path,
        program.own_program,
        settings.template_profile,
    )
    template.judge(
        merged["spec"],
        f"{program.template_path}.spec",
        gpu_resource=settings.gpu_resource if program.gpus else None,
        gated=program.gated,
    )
    _complete(merged["spec"], program, pod_labels, settings)
    return merged


def without_tracking(spec: Manifest) -> None:
    """Remove what only the pod has beside which tracking runs."""
    container = spec["containers"][0]
    for place, of, removed in (
        (container, "env", {IMAGENET_TRACKING, IMAGENET_TRACKING_CREDENTIALS}),
        (container, "volumeMounts", {TRACKING_CREDENTIALS}),
        (spec, "volumes", {TRACKING_CREDENTIALS}),
    ):
        place[of] = [item for item in place[of] if item["name"] not in removed]


def _complete(
    spec: Manifest, program: Program, pod_labels: Mapping[str, str], settings: Settings
) -> None:
    """Add what no template may remove, after the merge."""
    container = spec["containers"][0]
    if program.shared_memory:
        # /dev/shm counts towards the container's memory limit. So it may be half of the limit, or
        # of the request without a limit.
        limit = template.quantity(container, "limits", "memory")
        memory = template.quantity(container, "requests", "memory") if limit is None else limit
        volume = next(item["emptyDir"] for item in spec["volumes"] if item["name"] == SHARED_MEMORY)
        if memory and memory / 2 < quantities.parse(volume["sizeLimit"]):
            volume["sizeLimit"] = str(math.floor(memory / 2))
    if program.memory is not None:
        amounts = [
            template.quantity(one, kind, "memory")
            for one in (container, spec)
            for kind in ("limits", "requests")
        ]
        # The template may have memory for the container or for the pod. This is no limit: the
        # network's memory is unknown.
        if all(amount is None for amount in amounts):
            requests = template.part(template.part(container, "resources"), "requests")
            requests["memory"] = program.memory
    if program.gpus:
        # A limit is also the request.
        limits = template.part(template.part(container, "resources"), "limits")
        limits[settings.gpu_resource] = str(program.gpus)
    if program.shares_node:
        # Besides the template's affinity. The scheduler admits the first pod, because it matches
        # its own term.
        of_pods = template.part(template.part(spec, "affinity"), "podAffinity")
        terms = template.part(of_pods, "requiredDuringSchedulingIgnoredDuringExecution", list)
        terms.append(
            {
                "labelSelector": {"matchLabels": dict(labels.of_its_like(pod_labels))},
                "topologyKey": "kubernetes.io/hostname",
            }
        )
    if program.gated:
        spec["schedulingGates"] = [{"name": names.SCHEDULING_GATE}]


def _container(job: ImageNetJob, program: Program, settings: Settings) -> Manifest:
    container: Manifest = {
        "name": names.CONTAINER,
        "image": program.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": [program.command],
        "args": list(program.arguments),
        "env": _environment(job, program, settings),
        "ports": [
            {"name": name, "containerPort": number}
            for name, number in {"metrics": settings.metrics_port, **program.ports}.items()
        ],
        "securityContext": unprivileged(),
        "terminationMessagePath": TERMINATION_LOG,
        # Without a termination message, the end of the log is used.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _volume_mounts(program),
    }
    if program.reports_readiness:
        # An open port would not show that the members are connected.
        probe = {"path": "/readyz", "port": settings.metrics_port}
        container["readinessProbe"] = {"httpGet": probe, "periodSeconds": 5, "timeoutSeconds": 3}
        # Each failed probe is a warning of the pod. Until the pod is ready, the kubelet asks only
        # this one, whose answer waits. It never ends the container, however long members wait.
        container["startupProbe"] = {
            "httpGet": {**probe, "path": "/readyz?wait"},
            "initialDelaySeconds": 5,
            "periodSeconds": 5,
            "timeoutSeconds": 60,
            "failureThreshold": INT32_MAXIMUM,
        }
    return container


def _environment(job: ImageNetJob, program: Program, settings: Settings) -> list[Manifest]:
    """Return the variables of a pod; a variable may refer only to earlier ones."""
    own = {POD_NAME: "metadata.name", POD_IP: "status.podIP"}
    needs = {
        IMAGENET_CREDENTIALS: (program.secret, CREDENTIALS_PATH),
        IMAGENET_START_CREDENTIALS: (program.start_secret, f"/{START_CREDENTIALS}"),
        IMAGENET_TRACKING: (program.tracking, program.tracking),
        IMAGENET_TRACKING_CREDENTIALS: (program.tracking_secret, f"/{TRACKING_CREDENTIALS}"),
        IMAGENET_CACHE: (program.cache, CACHE_PATH),
    }
    literals: dict[str, str | None] = {
        IMAGENET_JOB: job.metadata.name,
        IMAGENET_NAMESPACE: job.metadata.namespace,
        IMAGENET_JOB_UID: job.metadata.uid,
        IMAGENET_ROLE: program.role,
        IMAGENET_METRICS_PORT: str(settings.metrics_port),
        IMAGENET_TERMINATION_LOG: TERMINATION_LOG,
        IMAGENET_SCRATCH: SCRATCH,
        # The root file system is read-only; the home folder and /tmp are on the scratch volume.
        "HOME": f"$({IMAGENET_SCRATCH})",
        "TMPDIR": f"$({IMAGENET_SCRATCH})",
        **{mount.variable: mount.path for mount in program.mounts},
        **{name: value for name, (needed, value) in needs.items() if needed is not None},
        **program.environment,
    }
    return [
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in own.items()
        ),
        *({"name": name, "value": value} for name, value in literals.items()),
    ]


def _volumes(program: Program, settings: Settings) -> list[Manifest]:
    limit = {} if settings.scratch_size is None else {"sizeLimit": settings.scratch_size}
    found: list[Manifest] = [{"name": "scratch", "emptyDir": limit}]
    if program.shared_memory:
        in_memory = {"medium": "Memory", "sizeLimit": settings.shared_memory_size}
        found.append({"name": SHARED_MEMORY, "emptyDir": in_memory})
    found += [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for claim, name in _names_of_claims(program).items()
    ]
    if program.cache is not None:
        found.append({"name": "cache", **_cache_volume(program.cache)})
    found += [
        # Only the pod's group may read the files. A training starts without the login of its
        # tracking, which then waits for the Secret.
        {
            "name": name,
            "secret": {
                "secretName": secret,
                "defaultMode": 0o440,
                **({"optional": True} if name == TRACKING_CREDENTIALS else {}),
            },
        }
        for name, secret in _secrets(program).items()
    ]
    return found


def _cache_volume(cache: Cache) -> Manifest:
    if cache.storage_class_name is None:
        medium = {"medium": "Memory"} if cache.medium == "Memory" else {}
        return {"emptyDir": {"sizeLimit": cache.size, **medium}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": cache.storage_class_name,
        "resources": {"requests": {"storage": cache.size}},
    }
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _secrets(program: Program) -> dict[str, str]:
    """Return the Secret of each volume with one; the folder of its mount has the volume's name."""
    secrets = {
        CREDENTIALS: program.secret,
        START_CREDENTIALS: program.start_secret,
        TRACKING_CREDENTIALS: program.tracking_secret,
    }
    return {name: secret for name, secret in secrets.items() if secret is not None}


def _names_of_claims(program: Program) -> dict[str, str]:
    """Return the name of each claim's volume: a pod with two volumes of one claim never starts."""
    return {mount.claim: mount.name for mount in program.mounts}


def _volume_mounts(program: Program) -> list[Manifest]:
    found: list[Manifest] = [{"name": "scratch", "mountPath": SCRATCH}]
    if program.shared_memory:
        found.append({"name": SHARED_MEMORY, "mountPath": "/dev/shm"})
    volumes = _names_of_claims(program)
    # Read-only in the mount, not in the volume: another mount of the claim may write.
    found += [
        {
            "name": volumes[mount.claim],
            "mountPath": mount.path,
            **({"readOnly": True} if mount.read_only else {}),
        }
        for mount in program.mounts
    ]
    if program.cache is not None:
        found.append({"name": "cache", "mountPath": CACHE_PATH})
    found += [
        {"name": name, "mountPath": f"/{name}", "readOnly": True} for name in _secrets(program)
    ]
    return found


def prefer_other_nodes(spec: Manifest, nodes: Iterable[str]) -> None:
    """Add a preference for other nodes than these, besides the template's affinity.

    It is no requirement: if only these nodes have room, the pods wait for them.
    """
    of_nodes = template.part(template.part(spec, "affinity"), "nodeAffinity")
    terms = template.part(of_nodes, "preferredDuringSchedulingIgnoredDuringExecution", list)
    # A requirement about a field takes one value; all of them must hold.
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
    terms.append({"weight": 100, "preference": {"matchFields": fields}})

"""The type of each field of a pod template.

The schema preserves templates, but an API server rejects a pod with a field of a wrong type, such
as ``env: [{name: N, value: 1}]``. Validation finds it first, with its path.

A template is a patch: null deletes, and ``$`` begins a merge directive. Fields that are not in the
table are accepted: a newer Kubernetes may know them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from imagenet_operator.api.quantities import parse
from imagenet_operator.errors import Problem

_ROOT: Final = "PodTemplate"

# From k8s.io/api/core/v1 of Kubernetes 1.36, where a field never changes its type. A field is text
# unless it says otherwise: [X] is a list, {X} an object with names of the user's, and a capital
# begins an object of this table. Left out are the kinds of volume that have become drivers, and
# objects that another rule refuses whatever they contain: hostPath, nfs, windowsOptions, tokens.
_TABLE: Final = {
    "PodTemplate": "metadata:Metadata spec:Pod",
    "Metadata": "name generateName namespace annotations:{text} labels:{text} finalizers:[text]",
    "Pod": """
        dnsPolicy hostname hostnameOverride nodeName preemptionPolicy priorityClassName
        restartPolicy runtimeClassName schedulerName serviceAccount serviceAccountName subdomain
        automountServiceAccountToken:boolean enableServiceLinks:boolean hostIPC:boolean
        hostNetwork:boolean hostPID:boolean hostUsers:boolean setHostnameAsFQDN:boolean
        shareProcessNamespace:boolean activeDeadlineSeconds:integer priority:integer
        terminationGracePeriodSeconds:integer affinity:Affinity containers:[Container]
        dnsConfig:DNS ephemeralContainers:[Container] hostAliases:[HostAlias]
        imagePullSecrets:[Named] initContainers:[Container] nodeSelector:{text} os:Named
        overhead:{quantity} readinessGates:[ReadinessGate] resourceClaims:[PodClaim]
        resources:Resources schedulingGates:[Named] securityContext:SecurityContext
        tolerations:[Toleration] topologySpreadConstraints:[Spread] volumes:[Volume]""",
    "Named": "name",
    "NameAndValue": "name value",
    "HostAlias": "ip hostnames:[text]",
    "ReadinessGate": "conditionType",
    "PodClaim": "name resourceClaimName resourceClaimTemplateName",
    "DNS": "nameservers:[text] searches:[text] options:[NameAndValue]",
    "Toleration": "effect key operator value tolerationSeconds:integer",
    "Spread": """
        nodeAffinityPolicy nodeTaintsPolicy topologyKey whenUnsatisfiable maxSkew:integer
        minDomains:integer labelSelector:LabelSelector matchLabelKeys:[text]""",
    "LabelSelector": "matchExpressions:[Expression] matchLabels:{text}",
    "Expression": "key operator values:[text]",
    "Affinity": "nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAffinity",
    "NodeAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution:[WeightedNodeTerm]
        requiredDuringSchedulingIgnoredDuringExecution:NodeTerms""",
    "NodeTerms": "nodeSelectorTerms:[NodeTerm]",
    "NodeTerm": "matchExpressions:[Expression] matchFields:[Expression]",
    "WeightedNodeTerm": "preference:NodeTerm weight:integer",
    "PodAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodTerm]
        requiredDuringSchedulingIgnoredDuringExecution:[PodTerm]""",
    "PodTerm": """
        topologyKey labelSelector:LabelSelector namespaceSelector:LabelSelector
        matchLabelKeys:[text] mismatchLabelKeys:[text] namespaces:[text]""",
    "WeightedPodTerm": "podAffinityTerm:PodTerm weight:integer",
    "Container": """
        image imagePullPolicy name restartPolicy targetContainerName terminationMessagePath
        terminationMessagePolicy workingDir args:[text] command:[text] stdin:boolean
        stdinOnce:boolean tty:boolean env:[Variable] envFrom:[Variables] lifecycle:Lifecycle
        livenessProbe:Probe readinessProbe:Probe startupProbe:Probe ports:[Port]
        resizePolicy:[ResizePolicy] resources:Resources restartPolicyRules:[RestartRule]
        securityContext:SecurityContext volumeDevices:[Device] volumeMounts:[Mount]""",
    "Variable": "name value valueFrom:VariableSource",
    "VariableSource": """
        configMapKeyRef:Key secretKeyRef:Key fieldRef:FieldOfPod fileKeyRef:KeyOfFile
        resourceFieldRef:FieldOfContainer""",
    "Variables": "prefix configMapRef:Key secretRef:Key",
    "Key": "key name optional:boolean",
    "KeyOfFile": "key path volumeName optional:boolean",
    "FieldOfPod": "apiVersion fieldPath",
    "FieldOfContainer": "containerName resource divisor:quantity",
    "Lifecycle": "stopSignal postStart:Action preStop:Action",
    "Action": "exec:Command httpGet:HTTP tcpSocket:Socket sleep:Sleep",
    "Probe": """
        exec:Command httpGet:HTTP tcpSocket:Socket grpc:GRPC failureThreshold:integer
        initialDelaySeconds:integer periodSeconds:integer successThreshold:integer
        terminationGracePeriodSeconds:integer timeoutSeconds:integer""",
    "Command": "command:[text]",
    "HTTP": "host path scheme port:port httpHeaders:[NameAndValue]",
    "Socket": "host port:port",
    "Sleep": "seconds:integer",
    "GRPC": "service port:integer",
    "Port": "hostIP name protocol containerPort:integer hostPort:integer",
    "ResizePolicy": "resourceName restartPolicy",
    "Resources": "claims:[ResourceClaim] limits:{quantity} requests:{quantity}",
    "ResourceClaim": "name request",
    "RestartRule": "action exitCodes:ExitCodes",
    "ExitCodes": "operator values:[integer]",
    "Device": "devicePath name",
    "Mount": """
        mountPath mountPropagation name recursiveReadOnly subPath subPathExpr readOnly:boolean""",
    "SecurityContext": """
        fsGroupChangePolicy procMount seLinuxChangePolicy supplementalGroupsPolicy
        allowPrivilegeEscalation:boolean privileged:boolean readOnlyRootFilesystem:boolean
        runAsNonRoot:boolean fsGroup:integer runAsGroup:integer runAsUser:integer
        supplementalGroups:[integer] appArmorProfile:Profile seccompProfile:Profile
        capabilities:Capabilities seLinuxOptions:SELinux sysctls:[NameAndValue]""",
    "Profile": "localhostProfile type",
    "Capabilities": "add:[text] drop:[text]",
    "SELinux": "level role type user",
    "Volume": """
        name configMap:Files csi:Driver downwardAPI:Files emptyDir:EmptyDir ephemeral:Ephemeral
        image:Image persistentVolumeClaim:Claim projected:Projected secret:Files""",
    "Files": "name secretName defaultMode:integer items:[File] optional:boolean",
    "File": "key path mode:integer fieldRef:FieldOfPod resourceFieldRef:FieldOfContainer",
    "Driver": "driver fsType nodePublishSecretRef:Named readOnly:boolean volumeAttributes:{text}",
    "EmptyDir": "medium sizeLimit:quantity",
    "Image": "pullPolicy reference",
    "Claim": "claimName readOnly:boolean",
    "Projected": "defaultMode:integer sources:[Projection]",
    "Projection": """
        clusterTrustBundle:TrustBundle configMap:Files downwardAPI:Files
        podCertificate:Certificate secret:Files""",
    "TrustBundle": "name path signerName labelSelector:LabelSelector optional:boolean",
    "Certificate": """
        certificateChainPath credentialBundlePath keyPath keyType signerName
        maxExpirationSeconds:integer userAnnotations:{text}""",
    "Ephemeral": "volumeClaimTemplate:ClaimTemplate",
    "ClaimTemplate": "metadata:Metadata spec:ClaimSpec",
    "ClaimSpec": """
        storageClassName volumeAttributesClassName volumeMode volumeName accessModes:[text]
        dataSource:Object dataSourceRef:Object resources:Resources selector:LabelSelector""",
    "Object": "apiGroup kind name namespace",
}


def wrong_types(template: Any, path: str) -> Iterator[Problem]:
    """Yield every field of a template that has the wrong type.

    Args:
        template: A PodTemplateSpec as a manifest gives it.
        path: Its field, such as ``spec.training.workers.template``.
    """
    yield from _wrong(template, _ROOT, path)


def _wrong(value: Any, kind: str, path: str) -> Iterator[Problem]:
    if value is None:
        return
    if kind in _SCALARS:
        if not _SCALARS[kind][0](value):
            yield _problem(value, kind, path)
    elif kind.startswith("["):
        if not isinstance(value, list):
            yield _problem(value, kind, path)
        else:
            for index, item in enumerate(value):
                yield from _wrong(item, kind[1:-1], f"{path}[{index}]")
    elif not isinstance(value, dict):
        yield _problem(value, kind, path)
    else:
        for name, child, place in _fields_of(value, kind, path):
            yield from _wrong(value[name], child, place)


def _fields_of(value: dict[str, Any], kind: str, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and path of the fields of an object whose types are known."""
    known = None if kind.startswith("{") else known_fields(kind)
    for name in value:
        if name.startswith("$"):
            continue
        if known is None:
            yield name, kind[1:-1], place_of(name, path)
        elif name in known:
            yield name, known[name], f"{path}.{name}"


def place_of(name: str, path: str) -> str:
    """Return the path of a user's key, such as ``nodeSelector[example.com/gpu]``."""
    plain = name.replace("-", "").replace("_", "").isalnum()
    return f"{path}.{name}" if plain else f"{path}[{name}]"


@cache
def known_fields(kind: str) -> dict[str, str]:
    """Return the fields of one of the table's objects, such as ``Pod``, with their types."""
    parts = (field.partition(":") for field in _TABLE[kind].split())
    return {name: type_ or "text" for name, _, type_ in parts}


def _is_integer(value: Any) -> bool:
    # The API server stores 8.0 as 8.
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_whole and not isinstance(value, bool)


def _is_quantity(value: Any) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


_SCALARS: Final[dict[str, tuple[Callable[[Any], bool], str, str]]] = {
    "text": (lambda value: isinstance(value, str), "must be text", "write text"),
    "integer": (_is_integer, "must be an integer", "write an integer"),
    "boolean": (
        lambda value: isinstance(value, bool),
        "must be true or false",
        "write true or false",
    ),
    "port": (
        lambda value: isinstance(value, str) or _is_integer(value),
        "must be a number or a name",
        "write the port's number, or its name",
    ),
    "quantity": (_is_quantity, "must be a quantity", "write one such as 16Gi, 500m or 2"),
}
"""For each type that is neither list nor object: its test, its message, and its remedy."""


def _problem(value: Any, kind: str, path: str) -> Problem:
    if kind in _SCALARS:
        _, complaint, remedy = _SCALARS[kind]
    elif kind.startswith("["):
        complaint, remedy = "must be a list", "write a list, a dash before each item"
    else:
        complaint, remedy = "must be an object", "write an object, such as NAME: VALUE"
    return Problem(
        path, f"{complaint}, not {_shown(value)}", _other_writing(value, kind) or remedy, "operator"
    )


def _other_writing(value: Any, kind: str) -> str | None:
    """Return how to write a value as the wanted type, if that is likely meant."""
    if kind == "text" and isinstance(value, bool | int | float):
        return f'write "{json.dumps(value)}" in quotes'
    if isinstance(value, str):
        bare = value.strip()
        if kind == "boolean" and bare.lower() in {"true", "false"}:
            return f"write {bare.lower()} without quotes"
        if kind == "integer" and bare.removeprefix("-").isdecimal():
            return f"write {bare} without quotes"
        if kind == "[text]":
            return f"write [{_shown(value)}]"
    return None


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"

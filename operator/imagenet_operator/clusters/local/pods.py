"""Translates a pod's manifest to a command line and environment, as pure functions.

Paths below a mount become paths below the volume's folder. POD.SERVICE becomes the peer's address.
`$(VAR)` is expanded, and downward API fields are filled in. Before anything starts, `check` rejects
what processes do not support, such as sidecars and images without a command.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from imagenet_operator.clusters.interface import Unsupported
from imagenet_operator.clusters.local.machine import (
    GPU_RESOURCE,
    VISIBLE_GPUS,
    Volumes,
    with_own_ports,
)
from imagenet_operator.manifests.labels import JOB_ROLE
from imagenet_spec import strategies
from imagenet_spec.resource import Manifest

TERMINATION_LOG = "/dev/termination-log"
"""Kubernetes' default of terminationMessagePath."""

# Labels with dots between, as POD.SERVICE: a whole text, or a part of a list or of JSON.
_NAMES = re.compile(r"""(?<![^\s,"'])[a-z0-9][-a-z0-9]*(?:\.[a-z0-9][-a-z0-9]*)+(?![^\s,"':])""")

# An escaped operator, or a reference up to the first ")".
_EXPANDED = re.compile(r"\$\$|\$\(([^)]*)\)")

_OWNED_VARIABLES = ("IMAGENET_*", "KUBERNETES_*", "JOB_COMPLETION_*", VISIBLE_GPUS)
"""Variables of any strategy; each strategy names its own."""

_LISTENS_ON_ALL = "TF_CONFIG"
"""The variable of servers that listen on all addresses of this machine."""


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a pod inherits from imagenetctl, in place of an image's.

    Variables by which members find each other come only from the manifest, never from a shell.
    """
    owned = (*_OWNED_VARIABLES, *strategies.variables(), *strategies.tuning())
    return {
        name: value
        for name, value in environment.items()
        if not any(fnmatchcase(name, pattern) for pattern in owned)
    }


@dataclass(frozen=True)
class Surroundings:
    """The resources of this machine for one pod.

    Attributes:
        paths: Paths in the container → paths on this machine.
        peer: (pod, service) → the peer's IP; None if there is no such Service.
    """

    environment: Mapping[str, str]
    paths: Mapping[str, Path]
    address: str
    peer: Callable[[str, str], str | None]
    gpus: tuple[str, ...]
    node: str


def check(pod: Manifest, images: frozenset[str]) -> None:
    """Raise Unsupported for a pod that processes cannot replace; it says what to do instead."""
    spec = pod["spec"]
    metadata = pod.get("metadata", {})
    where = metadata.get("name") or str((metadata.get("labels") or {}).get(JOB_ROLE, "pod"))
    beside = {
        "initContainers": spec.get("initContainers") or [],
        "ephemeralContainers": spec.get("ephemeralContainers") or [],
        "sidecars": spec["containers"][1:],
    }
    for kind, containers in beside.items():
        if containers:
            names = ", ".join(item["name"] for item in containers)
            raise _unsupported(where, f"{kind} ({names})", "leave them out of the template")
    _check_container(where, spec["containers"][0], images)
    if spec.get("restartPolicy") != "Never":
        raise _unsupported(where, "restartPolicy other than Never", "leave it out")
    for volume in spec.get("volumes", ()):
        if not {"persistentVolumeClaim", "emptyDir", "ephemeral", "secret"} & volume.keys():
            kind = next((key for key in volume if key != "name"), "nothing")
            raise _unsupported(
                where,
                f"a volume of kind {kind}",
                "use a persistentVolumeClaim, an emptyDir or a secret",
            )
        if "items" in volume.get("secret", {}):
            raise _unsupported(where, "items of a secret", "mount the whole secret")


def _check_container(where: str, container: Manifest, images: frozenset[str]) -> None:
    if container.get("image") not in images:
        raise _unsupported(
            where,
            f"the image {container.get('image')!r}",
            "leave out `image`, or write the `command` of your own program, which then runs as it "
            "is installed here",
        )
    if not container.get("command"):
        raise _unsupported(where, "an image's own entry point", "give the container a command")
    if container.get("workingDir"):
        raise _unsupported(where, "a workingDir", "give its programs whole paths")
    if any("subPathExpr" in mount for mount in container.get("volumeMounts", ())):
        raise _unsupported(where, "a subPathExpr", "write a subPath")
    if container.get("envFrom"):
        raise _unsupported(where, "envFrom", "write the variables under env")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom")
        if source is not None and "fieldRef" not in source:
            raise _unsupported(
                where, f"{next(iter(source))} for {variable['name']}", "write a value instead"
            )
        if source is not None:
            # An unsupported reference would otherwise fail only when the pod starts.
            _field({"metadata": {"name": where}}, source["fieldRef"]["fieldPath"], "", "")


def _unsupported(where: str, what: str, instead: str) -> Unsupported:
    return Unsupported(
        f"{where}: a local run cannot have {what}; {instead}, or use a Kubernetes cluster"
    )


def gpus(pod: Manifest) -> int:
    """Return how many GPUs a pod requests."""
    resources = pod["spec"]["containers"][0].get("resources") or {}
    asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return int(asked.get(GPU_RESOURCE, 0))


def claims(pod: Manifest) -> list[str]:
    """Return the claims that a pod mounts."""
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    ]


def secrets(pod: Manifest) -> list[str]:
    """Return the Secrets that a pod mounts."""
    return [
        volume["secret"]["secretName"]
        for volume in pod["spec"].get("volumes", ())
        if "secret" in volume
    ]


def ports(pod: Manifest) -> set[int]:
    """Return the ports that a pod declares."""
    return {int(item["containerPort"]) for item in pod["spec"]["containers"][0].get("ports", ())}


def mounts(pod: Manifest, volumes: Volumes, scratch: Path) -> dict[str, Path]:
    """Return the path of each mount of a pod on this machine."""

    def folder(volume: Manifest) -> Path:
        if "persistentVolumeClaim" in volume:
            return volumes.folder(volume["persistentVolumeClaim"]["claimName"])
        if "secret" in volume:
            return volumes.secret(volume["secret"]["secretName"])
        return scratch / str(volume["name"])

    folders = {volume["name"]: folder(volume) for volume in pod["spec"].get("volumes", ())}
    return {
        str(PurePosixPath(mount["mountPath"])): folders[mount["name"]] / mount.get("subPath", "")
        for mount in pod["spec"]["containers"][0].get("volumeMounts", ())
    }


def termination_path(pod: Manifest) -> str:
    """Return the path of the container's termination message."""
    container = pod["spec"]["containers"][0]
    return str(container.get("terminationMessagePath", TERMINATION_LOG))


def environment(pod: Manifest, surroundings: Surroundings) -> dict[str, str]:
    """Return the environment of a pod's program."""
    variables: dict[str, str] = {}
    for variable in pod["spec"]["containers"][0].get("env", ()):
        if "valueFrom" in variable:
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            value = _field(pod, path, surroundings.address, surroundings.node)
        else:
            # Only values of the manifest are paths in the container.
            value = expand(_translate(variable.get("value") or "", surroundings.paths), variables)
            value = _resolve(value, surroundings.peer)
            if variable["name"] == _LISTENS_ON_ALL:
                value = with_own_ports(value)
        variables[variable["name"]] = value
    visible = {VISIBLE_GPUS: ",".join(surroundings.gpus)}
    return {**surroundings.environment, **visible, **variables}


def program(pod: Manifest) -> str:
    """Return the command of a pod or a pod template."""
    return str(pod["spec"]["containers"][0]["command"][0])


def command(pod: Manifest, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return a pod's program and its arguments, expanded."""
    container = pod["spec"]["containers"][0]
    return tuple(
        expand(text, variables) for text in (*container["command"], *container.get("args", ()))
    )


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace the `$(VAR)` references in a text, as a kubelet does.

    The rules are those of Kubernetes' third_party/forked/golang/expansion: `$(NAME)` becomes the
    variable's value, an unknown name stays unchanged, `$$` is a literal `$` (so that `$$(NAME)`
    gives `$(NAME)`), and nothing is expanded twice.

    Example:
        >>> expand("--data=$(DATA) $$(DATA) $(NONE)", {"DATA": "/data"})
        '--data=/data $(DATA) $(NONE)'
    """

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return variables.get(name, match.group(0))

    return _EXPANDED.sub(replacement, text)


def _translate(value: str, paths: Mapping[str, Path]) -> str:
    """Translate a path in the container to a path on this machine; return other text unchanged.

    The path on this machine is escaped for `expand`.
    """
    path = PurePosixPath(value)
    for parent in (path, *path.parents) if path.is_absolute() else ():
        if str(parent) in paths:
            here = str(paths[str(parent)]).replace("$", "$$")
            return str(PurePosixPath(here) / path.relative_to(parent))
    return value


def _resolve(value: str, peer: Callable[[str, str], str | None]) -> str:
    """Replace peers' names by addresses: POD.SERVICE, with or without a port, in a list or JSON."""

    def replacement(match: re.Match[str]) -> str:
        pod, _, service = match[0].partition(".")
        return peer(pod, service) or match[0]

    return _NAMES.sub(replacement, value)


def _field(pod: Manifest, path: str, address: str, node: str) -> str:
    metadata = pod["metadata"]
    plain: dict[str, str] = {
        "metadata.name": metadata.get("name", ""),
        "metadata.namespace": metadata.get("namespace", "default"),
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": node,
        "status.podIP": address,
        "status.hostIP": "127.0.0.1",
    }
    if path in plain:
        return plain[path]
    for kind in ("labels", "annotations"):
        prefix = f"metadata.{kind}['"
        if path.startswith(prefix) and path.endswith("']"):
            return str((metadata.get(kind) or {}).get(path[len(prefix) : -2], ""))
    raise _unsupported(metadata.get("name", "pod"), f"the field {path}", "write a value instead")

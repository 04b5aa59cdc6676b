"""A pod's manifest becomes a command line and an environment: pure, no process here.

What a kubelet and a container do for a program, done for a process of this machine: paths below a
mount become paths below the volume's folder, the pod's address stands for its IP, POD.SERVICE for
a peer's address, `$(VAR)` is expanded. What processes cannot stand in for (sidecars, foreign
images, Secrets) is refused by `check`, before anything starts.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from imagenet_operator.api import Manifest, strategies
from imagenet_operator.clusters.interface import Unsupported
from imagenet_operator.clusters.local.gpus import RESOURCE, VISIBLE
from imagenet_operator.clusters.local.volumes import Volumes

TERMINATION_LOG = "/dev/termination-log"
"""Kubernetes' default of terminationMessagePath."""

# Labels with dots between, as POD.SERVICE: a whole text, or a part of a list or of JSON.
_NAMES = re.compile(r"""(?<![^\s,"'])[a-z0-9][-a-z0-9]*(?:\.[a-z0-9][-a-z0-9]*)+(?![^\s,"':])""")

# In order: an escaped operator, a reference up to the first ")".
_EXPANDED = re.compile(r"\$\$|\$\(([^)]*)\)")

_OWNED_VARIABLES = ("IMAGENET_*", "KUBERNETES_*", "JOB_COMPLETION_*", VISIBLE)
"""Whatever the strategy; each names its own."""


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What a pod takes from imagenetctl's own environment, in place of an image's.

    The variables by which members find each other are the manifest's alone; one that is left over
    in a shell must not reach them.
    """
    owned = (*_OWNED_VARIABLES, *strategies.variables(), *strategies.tuning())
    return {
        name: value
        for name, value in environment.items()
        if not any(fnmatchcase(name, pattern) for pattern in owned)
    }


@dataclass(frozen=True)
class Surroundings:
    """What this machine gives to one pod.

    Attributes:
        environment: What the pod's environment begins with.
        paths: Paths in the container → paths on this machine.
        address: The pod's own IP.
        peer: (pod, service) → the peer's IP, None if there is no such Service.
        gpus: The identifiers of its GPUs.
        node: The name of this machine as a node.
    """

    environment: Mapping[str, str]
    paths: Mapping[str, Path]
    address: str
    peer: Callable[[str, str], str | None]
    gpus: tuple[str, ...]
    node: str


def check(pod: Manifest, images: frozenset[str]) -> None:
    """Refuse a pod that processes cannot stand in for.

    Args:
        pod: A pod, or the template of one.
        images: The images whose programs are installed here.

    Raises:
        Unsupported: With what it uses, and what to do instead.
    """
    spec = pod["spec"]
    where = pod.get("metadata", {}).get("name") or _role(pod)
    _check_others(where, spec)
    _check_container(where, spec["containers"][0], images)
    if spec.get("restartPolicy") != "Never":
        raise _unsupported(where, "restartPolicy other than Never", "leave it out")
    for volume in spec.get("volumes", ()):
        if not {"persistentVolumeClaim", "emptyDir", "secret"} & volume.keys():
            kind = next((key for key in volume if key != "name"), "nothing")
            raise _unsupported(
                where,
                f"a volume of kind {kind}",
                "use a persistentVolumeClaim, an emptyDir or a secret",
            )
        if "items" in volume.get("secret", {}):
            raise _unsupported(where, "items of a secret", "mount the whole secret")


def _check_others(where: str, spec: Manifest) -> None:
    """Refuse containers beside the program's."""
    beside = {
        "initContainers": spec.get("initContainers") or [],
        "ephemeralContainers": spec.get("ephemeralContainers") or [],
        "sidecars": spec["containers"][1:],
    }
    for kind, containers in beside.items():
        if containers:
            names = ", ".join(item["name"] for item in containers)
            raise _unsupported(where, f"{kind} ({names})", "leave them out of the template")


def _check_container(where: str, container: Manifest, images: frozenset[str]) -> None:
    if container.get("image") not in images:
        raise _unsupported(
            where,
            f"the image {container.get('image')!r}",
            "leave `image` (and the `command` in it) out: the programs run as they are installed "
            "here",
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
        _check_variable(where, variable)


def _check_variable(where: str, variable: Manifest) -> None:
    source = variable.get("valueFrom")
    if source is None:
        return
    if "fieldRef" not in source:
        raise _unsupported(
            where, f"{next(iter(source))} for {variable['name']}", "write a value instead"
        )
    # A reference that cannot be read here would fail only when the pod starts.
    _field({"metadata": {"name": where}}, source["fieldRef"]["fieldPath"], "", "")


def _unsupported(where: str, what: str, instead: str) -> Unsupported:
    return Unsupported(
        f"{where}: a local run cannot have {what}; {instead}, or use a Kubernetes cluster"
    )


def _role(pod: Manifest) -> str:
    labels = pod.get("metadata", {}).get("labels") or {}
    return str(labels.get("training.imagenet.dev/job-role", "pod"))


def gpus(pod: Manifest) -> int:
    """How many GPUs a pod asks for."""
    resources = pod["spec"]["containers"][0].get("resources") or {}
    asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return int(asked.get(RESOURCE, 0))


def claims(pod: Manifest) -> list[str]:
    """The claims that a pod mounts."""
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    ]


def secrets(pod: Manifest) -> list[str]:
    """The Secrets that a pod mounts."""
    return [
        volume["secret"]["secretName"]
        for volume in pod["spec"].get("volumes", ())
        if "secret" in volume
    ]


def ports(pod: Manifest) -> set[int]:
    """The ports that a pod declares."""
    return {int(item["containerPort"]) for item in pod["spec"]["containers"][0].get("ports", ())}


def mounts(pod: Manifest, volumes: Volumes, scratch: Path) -> dict[str, Path]:
    """Where each mount of a pod is on this machine.

    Args:
        pod: The pod.
        volumes: The folders of claims and Secrets.
        scratch: A folder of the pod's own, for its emptyDir volumes.
    """

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
    """Where the container writes its termination message."""
    container = pod["spec"]["containers"][0]
    return str(container.get("terminationMessagePath", TERMINATION_LOG))


def environment(pod: Manifest, given: Surroundings) -> dict[str, str]:
    """The whole environment of a pod's program."""
    variables: dict[str, str] = {}
    for variable in pod["spec"]["containers"][0].get("env", ()):
        if "valueFrom" in variable:
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            value = _field(pod, path, given.address, given.node)
        else:
            # Only what the manifest itself writes is a path in the container.
            value = expand(_translate(variable.get("value") or "", given.paths), variables)
            value = _resolve(value, given.peer)
        variables[variable["name"]] = value
    visible = {VISIBLE: ",".join(given.gpus)}
    return {**given.environment, **visible, **variables}


def program(pod: Manifest) -> str:
    """What a pod (or the template of one) runs."""
    return str(pod["spec"]["containers"][0]["command"][0])


def command(pod: Manifest, variables: Mapping[str, str]) -> tuple[str, ...]:
    """A pod's program and its arguments, expanded."""
    container = pod["spec"]["containers"][0]
    return tuple(
        expand(text, variables) for text in (*container["command"], *container.get("args", ()))
    )


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace the `$(VAR)` references in a text, as a kubelet does.

    The rules are those of Kubernetes' third_party/forked/golang/expansion: `$(NAME)` becomes the
    variable's value, an unknown name stays as it is written, `$$` is a literal `$` (so that
    `$$(NAME)` gives `$(NAME)`), and nothing is expanded twice.

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
    """A path in the container as a path on this machine; any other text as it is.

    What the path has of this machine is written so that `expand` leaves it as it is.
    """
    path = PurePosixPath(value)
    for parent in (path, *path.parents) if path.is_absolute() else ():
        if str(parent) in paths:
            here = str(paths[str(parent)]).replace("$", "$$")
            return str(PurePosixPath(here) / path.relative_to(parent))
    return value


def _resolve(value: str, peer: Callable[[str, str], str | None]) -> str:
    """Put addresses for the names of peers: POD.SERVICE, with a port or not, in a list or JSON."""

    def replacement(match: re.Match[str]) -> str:
        pod, _, service = match[0].partition(".")
        return peer(pod, service) or match[0]

    return _NAMES.sub(replacement, value)


def _field(pod: Manifest, path: str, address: str, node: str) -> str:
    """What a fieldRef of the downward API gives."""
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

"""The fields of a pod template that belong to the operator.

The schema preserves templates, so the API server does not check them. `validate` checks them, and
the builders check them again before a merge, because a stored job may not have been validated.
`security_floor` has the fields of the security floor, and `pod_validation` the rules of all API
servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from imagenet_spec import strategies
from imagenet_spec.errors import Problem
from imagenet_spec.names import JOB_COMPLETION_INDEX
from imagenet_spec.resource import queue
from imagenet_spec.resource.templates import pod_validation, security_floor
from imagenet_spec.resource.templates.conflicts import (
    Owned,
    conflict,
    directives,
    items,
    misshapen,
    owned,
)
from imagenet_spec.resource.templates.own_program import MAIN_CONTAINER, OwnProgram

GPU_RESOURCE = "nvidia.com/gpu"
METRICS_PORT = "metrics"
"""The port of a pod that serves the program's metrics."""

_OWNED_LABELS = re.compile(
    r"training\.imagenet\.dev/.*|app\.kubernetes\.io/(managed-by|name)"
    r"|(batch\.kubernetes\.io/)?(job-name|controller-uid|job-completion-index)"
)
_OWNED_VARIABLES = ("IMAGENET_*", "POD_*", JOB_COMPLETION_INDEX)
"""Variables of any strategy; each strategy names its own."""

_OWNED_VOLUMES = frozenset({"source", "data", "output", "scratch", "shared-memory"})
_OWNED_MOUNTS = frozenset({"/source", "/data", "/output", "/scratch", "/dev/shm"})
_LISTS_WITH_OWN_ITEMS = ("containers", "volumes")
_MAIN_LISTS_WITH_OWN_ITEMS = ("env", "volumeMounts")


_NAMING = Owned("the operator names its pods")
_METADATA = {
    "name": _NAMING,
    "generateName": _NAMING,
    "namespace": _NAMING,
    "ownerReferences": Owned("the operator owns its pods"),
    "finalizers": Owned("the operator must be able to delete its pods"),
}
_SPEC = {
    "restartPolicy": Owned("the operator restarts whole attempts", ("Never",)),
    "hostname": Owned("members find each other by it"),
    "subdomain": Owned("members find each other by it"),
    "schedulingGates": Owned("the operator holds back whole attempts"),
}
_PROGRAM = "the operator runs its own program; extraArgs adds options"
_QUEUED = "the operator makes each attempt a separate group in the queue of the job"
_LABEL_THE_JOB = f"remove it, and write the label {queue.NAME} in metadata.labels of the job"
_MAIN = {
    "terminationMessagePath": Owned("programs report through it"),
    "terminationMessagePolicy": Owned("programs report through it"),
    "restartPolicy": Owned("the operator restarts whole attempts"),
    "restartPolicyRules": Owned("the operator restarts whole attempts"),
}


def owned_field_conflicts(
    template: Mapping[str, Any], path: str, own_program: OwnProgram = OwnProgram.NEVER
) -> list[Problem]:
    """Return every field of a template that belongs to the operator, or makes it invalid."""
    return [
        *_deletions(template, path),
        *directives(template, path),
        *_metadata(template.get("metadata", {}), f"{path}.metadata"),
        *_spec(template.get("spec", {}), f"{path}.spec", own_program),
        *pod_validation.unstorable(template, path),
    ]


def _deletions(value: Any, path: str) -> Iterator[Problem]:
    """Reject the removal of texts from lists, which are the program's arguments and the floor."""
    for name, child in value.items() if isinstance(value, dict) else ():
        if str(name).startswith("$deleteFromPrimitiveList"):
            yield Problem(
                f"{path}.{name}",
                "cannot be used: it would remove the operator's items",
                "remove it",
                "operator",
            )
        yield from _deletions(child, f"{path}.{name}")
    for index, child in enumerate(value) if isinstance(value, list) else ():
        yield from _deletions(child, f"{path}[{index}]")


def _metadata(metadata: Any, path: str) -> Iterator[Problem]:
    yield from misshapen(metadata, dict, path)
    if not isinstance(metadata, dict):
        return
    yield from directives(metadata, path)
    yield from owned(metadata, _METADATA, path)
    labels = metadata.get("labels", {})
    yield from misshapen(labels, dict, f"{path}.labels")
    if isinstance(labels, dict):
        yield from directives(labels, f"{path}.labels")
        for key in labels:
            if _OWNED_LABELS.fullmatch(key):
                yield conflict(f"{path}.labels[{key}]", "the operator selects its pods by it")
    yield from security_floor.of_annotations(metadata.get("annotations"), f"{path}.annotations")
    for field in ("labels", "annotations"):
        keys = metadata.get(field)
        for key in sorted(queue.OWNED.intersection(keys if isinstance(keys, dict) else ())):
            yield conflict(f"{path}.{field}[{key}]", _QUEUED, _LABEL_THE_JOB)


def _spec(spec: Any, path: str, own_program: OwnProgram) -> Iterator[Problem]:
    yield from misshapen(spec, dict, path)
    if not isinstance(spec, dict):
        return
    yield from directives(spec, path)
    yield from owned(spec, _SPEC, path)
    yield from security_floor.of_pod(spec, path)
    if spec.get("ephemeralContainers"):
        yield Problem(
            f"{path}.ephemeralContainers",
            "cannot be given: Kubernetes adds them only to an existing pod",
            "write them to containers or initContainers, or use kubectl debug",
            "operator",
        )
    for name, place, container in items(spec, "containers", path):
        yield from security_floor.of_container(container, place)
        if name == MAIN_CONTAINER:
            yield from _main_container(container, place)
            yield from _program(container, place, own_program)
        yield from _metrics_port(container, place)
    for _, place, container in items(spec, "initContainers", path):
        yield from security_floor.of_container(container, place)
        yield from _metrics_port(container, place)
    for name, place, volume in items(spec, "volumes", path):
        if name in _OWNED_VOLUMES:
            yield conflict(place, f"the volume {name} belongs to the operator", "use another name")
        yield from security_floor.of_volume(volume, place)
    for field in _LISTS_WITH_OWN_ITEMS:
        yield from _list_directives(spec, field, path, _OWNED_VOLUMES | {MAIN_CONTAINER})


def _metrics_port(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for name, place, port in items(container, "ports", path):
        if name == METRICS_PORT and "$patch" not in port:
            why = "Prometheus finds the program's metrics by this name"
            yield conflict(f"{place}.name", why, "write another name")


def _list_directives(
    parent: Mapping[str, Any], field: str, path: str, own: frozenset[str]
) -> Iterator[Problem]:
    """Reject directives and nulls that remove the operator's items of a list."""
    if field in parent:
        yield from misshapen(parent[field], list, f"{path}.{field}")
    for name, place, item in items(parent, field, path):
        if "$patch" in item and (name in own or item["$patch"] == "replace"):
            yield conflict(f"{place}.$patch", "it would remove the operator's items")


def _program(container: Mapping[str, Any], path: str, own_program: OwnProgram) -> Iterator[Problem]:
    """Reject a command that would run in the operator's image, and arguments without a command."""
    if own_program is OwnProgram.ALLOWED:
        if "args" in container and not container.get("command"):
            what = "is given without a command, so it would be for the operator's program"
            yield Problem(f"{path}.args", what, "write a command too, or extraArgs", "operator")
        return
    remedy = "remove it"
    if own_program is OwnProgram.WITH_AN_IMAGE:
        remedy += ", or write its image as spec.training.image"
    for field in ("command", "args"):
        if field in container:
            yield conflict(f"{path}.{field}", _PROGRAM, remedy)


def _main_container(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from directives(container, path)
    yield from owned(container, _MAIN, path)
    patterns = (*_OWNED_VARIABLES, *strategies.variables())
    for name, place, _ in items(container, "env", path):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            yield conflict(place, f"{name} is set by the operator")
    for _, place, mount in items(container, "volumeMounts", path):
        if str(mount.get("mountPath", "")).rstrip("/") in _OWNED_MOUNTS:
            yield conflict(f"{place}.mountPath", "the operator mounts there", "use another path")
    for field in _MAIN_LISTS_WITH_OWN_ITEMS:
        yield from _list_directives(container, field, path, frozenset())
    resources = container.get("resources")
    for kind in ("limits", "requests"):
        amounts = resources.get(kind) if isinstance(resources, dict) else None
        if isinstance(amounts, dict) and GPU_RESOURCE in amounts:
            place = f"{path}.resources.{kind}[{GPU_RESOURCE}]"
            yield conflict(place, "the operator counts GPUs", "set gpus of the workers")

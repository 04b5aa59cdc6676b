"""What a user's pod template may not touch: the fields that the operator owns, and the floor.

The schema keeps templates as they are, so the API server sees none of this. `checks` asks here on
behalf of `validate`, and the builders ask again before they merge, because a job may have been
stored by somebody who never validated it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from imagenet_operator.api import strategies
from imagenet_operator.api.own_program import MAIN_CONTAINER, OwnProgram
from imagenet_operator.api.problems import Problem

GPU_RESOURCE = "nvidia.com/gpu"

_OWNED_LABELS = re.compile(
    r"training\.imagenet\.dev/.*|app\.kubernetes\.io/(managed-by|name)"
    r"|(batch\.kubernetes\.io/)?(job-name|controller-uid|job-completion-index)"
)
_OWNED_VARIABLES = ("IMAGENET_*", "POD_*", "JOB_COMPLETION_INDEX")
"""Whatever the strategy; each names its own."""

_OWNED_VOLUMES = frozenset({"source", "data", "output", "scratch", "shared-memory"})
_OWNED_MOUNTS = frozenset({"/source", "/data", "/output", "/scratch", "/dev/shm"})
_CAPABILITIES_ALLOWED = ("NET_BIND_SERVICE",)
_LISTS_WITH_OWN_ITEMS = ("containers", "volumes")
_MAIN_LISTS_WITH_OWN_ITEMS = ("env", "volumeMounts")


@dataclass(frozen=True)
class _Owned:
    """Why a field is not the user's, and the values that change nothing."""

    why: str
    harmless: tuple[Any, ...] = ()


_NAMING = _Owned("the operator names its pods")
_FLOOR = "the operator's security floor"
_METADATA = {
    "name": _NAMING,
    "generateName": _NAMING,
    "namespace": _NAMING,
    "ownerReferences": _Owned("the operator owns its pods"),
    "finalizers": _Owned("the operator has to be able to delete its pods"),
}
_SPEC = {
    "restartPolicy": _Owned("the operator restarts whole attempts", ("Never",)),
    "hostname": _Owned("members find each other by it"),
    "subdomain": _Owned("members find each other by it"),
    "schedulingGates": _Owned("the operator holds back whole attempts"),
    "hostNetwork": _Owned(_FLOOR, (False,)),
    "hostPID": _Owned(_FLOOR, (False,)),
    "hostIPC": _Owned(_FLOOR, (False,)),
}
_SECURITY = {
    "privileged": _Owned(_FLOOR, (False,)),
    "allowPrivilegeEscalation": _Owned(_FLOOR, (False,)),
    "runAsNonRoot": _Owned(_FLOOR, (True,)),
    "procMount": _Owned(_FLOOR, ("Default",)),
}
_PROGRAM = "the operator runs its own program; extraArgs adds options"
_MAIN = {
    "terminationMessagePath": _Owned("programs report through it"),
    "terminationMessagePolicy": _Owned("programs report through it"),
}


def owned_field_conflicts(
    template: Mapping[str, Any], path: str, own_program: OwnProgram = OwnProgram.NEVER
) -> list[Problem]:
    """Return every place where a template overrides what is not the user's.

    Args:
        template: A PodTemplateSpec as a manifest gives it.
        path: Where it stands, such as ``spec.training.workers.template``.
        own_program: Whether it may bring a program of its own.
    """
    return [
        *_deletions(template, path),
        *_directives(template, path),
        *_metadata(template.get("metadata", {}), f"{path}.metadata"),
        *_spec(template.get("spec", {}), f"{path}.spec", own_program),
    ]


def _conflict(path: str, why: str, hint: str = "remove it") -> Problem:
    return Problem(path, f"cannot be overridden: {why}", hint, "operator")


def _misshapen(value: Any, kind: type, path: str) -> Iterator[Problem]:
    if not isinstance(value, kind):
        words = "an object" if kind is dict else "a list"
        yield Problem(path, f"must be {words}", "remove it or give it content", "operator")


def _deletions(value: Any, path: str) -> Iterator[Problem]:
    """Refuse to take texts out of lists: those of a built pod are its program and its floor."""
    for name, child in value.items() if isinstance(value, dict) else ():
        if str(name).startswith("$deleteFromPrimitiveList"):
            yield Problem(
                f"{path}.{name}",
                "cannot be used: what the operator lists has to stay",
                "remove it",
                "operator",
            )
        yield from _deletions(child, f"{path}.{name}")
    for index, child in enumerate(value) if isinstance(value, list) else ():
        yield from _deletions(child, f"{path}[{index}]")


def _directives(mapping: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Refuse merge directives where they would take away what the operator has put there."""
    for key in mapping:
        if key in {"$patch", "$retainKeys"}:
            yield _conflict(f"{path}.{key}", "it would remove fields that the operator sets")


def _owned(mapping: Mapping[str, Any], table: Mapping[str, _Owned], path: str) -> Iterator[Problem]:
    for key, field in table.items():
        if key in mapping and mapping[key] not in field.harmless:
            harmless = f"remove it, or write {field.harmless[0]}" if field.harmless else "remove it"
            yield _conflict(f"{path}.{key}", field.why, harmless.replace("True", "true"))


def _metadata(metadata: Any, path: str) -> Iterator[Problem]:
    yield from _misshapen(metadata, dict, path)
    if not isinstance(metadata, dict):
        return
    yield from _directives(metadata, path)
    yield from _owned(metadata, _METADATA, path)
    labels = metadata.get("labels", {})
    yield from _misshapen(labels, dict, f"{path}.labels")
    if isinstance(labels, dict):
        yield from _directives(labels, f"{path}.labels")
        for key in labels:
            if _OWNED_LABELS.fullmatch(key):
                yield _conflict(f"{path}.labels[{key}]", "the operator selects its pods by it")


def _spec(spec: Any, path: str, own_program: OwnProgram) -> Iterator[Problem]:
    yield from _misshapen(spec, dict, path)
    if not isinstance(spec, dict):
        return
    yield from _directives(spec, path)
    yield from _owned(spec, _SPEC, path)
    yield from _security(spec, path)
    for name, place, container in _items(spec, "containers", path):
        yield from _container(container, place)
        if name == MAIN_CONTAINER:
            yield from _main_container(container, place)
            yield from _program(container, place, own_program)
    for _, place, container in _items(spec, "initContainers", path):
        yield from _container(container, place)
    for name, place, volume in _items(spec, "volumes", path):
        if name in _OWNED_VOLUMES:
            yield _conflict(place, f"the volume {name} is the operator's", "use another name")
        if "hostPath" in volume:
            yield _conflict(f"{place}.hostPath", _FLOOR, "use a claim")
    for field in _LISTS_WITH_OWN_ITEMS:
        yield from _list_directives(spec, field, path, _OWNED_VOLUMES | {MAIN_CONTAINER})


def _items(
    parent: Mapping[str, Any], field: str, path: str
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, path and content of a list's objects; what else it holds is no conflict."""
    values = parent.get(field)
    for index, item in enumerate(values if isinstance(values, list) else ()):
        if isinstance(item, dict):
            yield str(item.get("name", "")), f"{path}.{field}[{index}]", item


def _list_directives(
    parent: Mapping[str, Any], field: str, path: str, own: frozenset[str]
) -> Iterator[Problem]:
    """Refuse directives that remove the operator's items of a list, and a null for all of it."""
    if field in parent:
        yield from _misshapen(parent[field], list, f"{path}.{field}")
    for name, place, item in _items(parent, field, path):
        if "$patch" in item and (name in own or item["$patch"] == "replace"):
            yield _conflict(f"{place}.$patch", "it would remove what the operator puts there")


def _security(parent: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Refuse a securityContext, of a pod or of a container, that lowers the floor."""
    if "securityContext" not in parent:
        return
    context, path = parent["securityContext"], f"{path}.securityContext"
    yield from _misshapen(context, dict, path)
    if not isinstance(context, dict):
        return
    yield from _directives(context, path)
    yield from _owned(context, _SECURITY, path)
    if "runAsUser" in context and context["runAsUser"] in (0, None):
        yield _conflict(f"{path}.runAsUser", _FLOOR, "write a number above 0")
    if "seccompProfile" in context:
        profile = context["seccompProfile"]
        kind = profile.get("type") if isinstance(profile, dict) else None
        if kind not in ("RuntimeDefault", "Localhost"):
            yield _conflict(f"{path}.seccompProfile", _FLOOR, "write {type: RuntimeDefault}")
    if "capabilities" in context:
        yield from _capabilities(context["capabilities"], f"{path}.capabilities")


def _capabilities(capabilities: Any, path: str) -> Iterator[Problem]:
    yield from _misshapen(capabilities, dict, path)
    if not isinstance(capabilities, dict):
        return
    yield from _directives(capabilities, path)
    if any(name not in _CAPABILITIES_ALLOWED for name in _listed(capabilities.get("add"))):
        yield _conflict(f"{path}.add", _FLOOR)
    if "drop" in capabilities and "ALL" not in _listed(capabilities["drop"]):
        yield _conflict(f"{path}.drop", _FLOOR, "remove it, or write [ALL]")


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, or what stands in place of one; none if nothing does."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _container(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from _security(container, path)
    for _, place, port in _items(container, "ports", path):
        if "hostPort" in port:
            yield _conflict(f"{place}.hostPort", _FLOOR)


def _program(container: Mapping[str, Any], path: str, own_program: OwnProgram) -> Iterator[Problem]:
    """Refuse a command that would run in the operator's image, and arguments without one."""
    if own_program is OwnProgram.ALLOWED:
        if "args" in container and not container.get("command"):
            what = "is given without a command, and so is meant for the operator's program"
            yield Problem(f"{path}.args", what, "write a command too, or extraArgs", "operator")
        return
    remedy = "remove it"
    if own_program is OwnProgram.WITH_AN_IMAGE:
        remedy += ", or give the image that it runs in as spec.training.image"
    for field in ("command", "args"):
        if field in container:
            yield _conflict(f"{path}.{field}", _PROGRAM, remedy)


def _is_owned(variable: str) -> bool:
    patterns = (*_OWNED_VARIABLES, *strategies.variables())
    return any(fnmatchcase(variable, pattern) for pattern in patterns)


def _main_container(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from _directives(container, path)
    yield from _owned(container, _MAIN, path)
    for name, place, _ in _items(container, "env", path):
        if _is_owned(name):
            yield _conflict(place, f"{name} tells the program its place in the job")
    for _, place, mount in _items(container, "volumeMounts", path):
        if str(mount.get("mountPath", "")).rstrip("/") in _OWNED_MOUNTS:
            yield _conflict(f"{place}.mountPath", "the operator mounts there", "use another path")
    for field in _MAIN_LISTS_WITH_OWN_ITEMS:
        yield from _list_directives(container, field, path, frozenset())
    resources = container.get("resources")
    for kind in ("limits", "requests"):
        amounts = resources.get(kind) if isinstance(resources, dict) else None
        if isinstance(amounts, dict) and GPU_RESOURCE in amounts:
            place = f"{path}.resources.{kind}[{GPU_RESOURCE}]"
            yield _conflict(place, "the operator counts GPUs", "set gpus of the workers")

"""What every API server requires of a pod template: types of fields, and rules between them.

The schema preserves templates. An API server drops a field that it does not know, and rejects a pod
with a field of a wrong type, such as ``env: [{name: N, value: 1}]``, or with fields that contradict
each other. It would do so only at the pod's creation, after hours of preparation. Validation finds
all of these first, with their paths. Rules of only some versions are not checked.

A template is a patch: null deletes, and ``$`` begins a merge directive. A field that is not in the
table (`pod_fields`, generated) is wrong only if a known one has almost its name: a newer Kubernetes
may know others.

Only the template is validated, as it is merged: items of `containers` with the same name become
one, but not those of `initContainers`, because the operator has none.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Final

from imagenet_spec.errors import Problem
from imagenet_spec.names import nearest
from imagenet_spec.resource.fields import LABEL_MAXIMUM
from imagenet_spec.resource.quantities import parse
from imagenet_spec.resource.templates.conflicts import items
from imagenet_spec.resource.templates.own_program import MAIN_CONTAINER
from imagenet_spec.resource.templates.pod_fields import FIELDS, ROOT

_TOLERATION_OPERATORS = ("Exists", "Equal", "Lt", "Gt")
"""Lt and Gt exist since Kubernetes 1.35, behind a feature gate."""

_LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
"""A DNS-1123 label of any length: the name of a container or volume."""

_CONTAINERS = ("containers", "initContainers")


def wrong_types(value: Any, path: str, kind: str = ROOT) -> Iterator[Problem]:
    """Yield every field of a template, or of a part that has a kind, which has the wrong type."""
    if value is None or kind == "object":
        return
    if kind in _SCALARS:
        if not _SCALARS[kind][0](value):
            yield _wrong_type(value, kind, path)
    elif kind.startswith("["):
        if not isinstance(value, list):
            yield _wrong_type(value, kind, path)
        else:
            for index, item in enumerate(value):
                yield from wrong_types(item, f"{path}[{index}]", kind[1:-1])
    elif not isinstance(value, dict):
        yield _wrong_type(value, kind, path)
    else:
        for name, child, place in _fields_of(value, kind, path):
            yield from wrong_types(value[name], place, child)


def misspelled(value: Any, path: str, kind: str = ROOT) -> Iterator[Problem]:
    """Yield every field of a template that is unknown and has almost the name of a known one."""
    if isinstance(value, list) and kind.startswith("["):
        for index, item in enumerate(value):
            yield from misspelled(item, f"{path}[{index}]", kind[1:-1])
    elif isinstance(value, dict) and kind in FIELDS:
        for name in value:
            if (meant := _meant(name, kind)) is not None:
                hint = f"did you mean {meant}?"
                place = _place_of(name, path)
                yield Problem(place, "is not a field of a pod", hint, "operator")
        for name, child, place in _fields_of(value, kind, path):
            yield from misspelled(value[name], place, child)


def without_misspelled(value: Any, kind: str = ROOT) -> Any:
    """Return a template without the fields that `misspelled` finds."""
    if isinstance(value, list) and kind.startswith("["):
        return [without_misspelled(item, kind[1:-1]) for item in value]
    if not isinstance(value, dict) or kind not in FIELDS:
        return value
    known = known_fields(kind)
    return {
        name: without_misspelled(child, known.get(name, "object"))
        for name, child in value.items()
        if _meant(name, kind) is None
    }


def _meant(name: str, kind: str) -> str | None:
    """Return the field that an unknown one may mean."""
    # `_misplaced` has more to say of a template's own fields.
    known = known_fields(kind)
    if kind == ROOT or name in known or name.startswith("$"):
        return None
    return nearest(name, known)


def _fields_of(value: dict[str, Any], kind: str, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and path of the fields of an object whose types are known."""
    known = None if kind.startswith("{") else known_fields(kind)
    for name in value:
        if name.startswith("$"):
            continue
        if known is None:
            yield name, kind[1:-1], _place_of(name, path)
        elif name in known:
            yield name, known[name], f"{path}.{name}"


def _place_of(name: str, path: str) -> str:
    """Return the path of a user's key, such as ``nodeSelector[example.com/gpu]``."""
    plain = name.replace("-", "").replace("_", "").isalnum()
    return f"{path}.{name}" if plain else f"{path}[{name}]"


@cache
def known_fields(kind: str) -> dict[str, str]:
    """Return the fields of one of the table's objects, such as ``PodSpec``, with their types."""
    parts = (field.partition(":") for field in FIELDS[kind].split())
    return {name: type_ or "text" for name, _, type_ in parts}


def _is_integer(value: Any) -> bool:
    # The API server stores 8.0 as 8.
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_whole and not isinstance(value, bool)


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
    "quantity": (
        lambda value: _amount(value) is not None,
        "must be a quantity",
        "write one such as 16Gi, 500m or 2",
    ),
}
"""For each type that is neither list nor object: its test, its message, and its remedy."""


def _wrong_type(value: Any, kind: str, path: str) -> Problem:
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


def unstorable(template: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield every reason why the pods of a template, of any shape, could not be created.

    Fields that the API server would drop are reasons too.
    """
    yield from _misplaced(template, path)
    spec, path = template.get("spec"), f"{path}.spec"
    if isinstance(spec, dict):
        yield from _images(spec, path)
        yield from _names(spec, path)
        yield from _labels(spec, path)
        yield from _amounts(spec, path)
        for place, toleration in _plain(spec, "tolerations", path):
            yield from _toleration(toleration, place)


def _problem(path: str, message: str, hint: str) -> Problem:
    return Problem(path, message, hint, "operator")


def _plain(spec: Mapping[str, Any], field: str, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and content of a list's objects, without merge directives."""
    for _, place, item in items(spec, field, path):
        if "$patch" not in item:
            yield place, item


def _misplaced(template: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject fields that no pod would get, mostly because the level `spec` is missing."""
    # The paths of each field that a user may set in a template.
    places = {
        **{name: f"spec.{name}" for name in known_fields("PodSpec")},
        **{name: f"metadata.{name}" for name in ("labels", "annotations")},
        **{name: name for name in known_fields(ROOT)},
    }
    for name in map(str, template):
        if name in known_fields(ROOT) or name.startswith("$"):
            continue
        if name in places:
            hint = f"write it under {places[name].partition('.')[0]}"
        elif (meant := nearest(name, places)) is not None:
            hint = f"did you mean {places[meant]}?"
        else:
            hint = "remove it: a template has metadata and spec"
        yield _problem(f"{path}.{name}", "is not a field of a pod template", hint)


def _images(spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject containers without an image; the program's container has one unless it is removed."""
    found: dict[str, tuple[str, Any]] = {MAIN_CONTAINER: ("", "the operator's")}
    for place, container in _plain(spec, "containers", path):
        name = container.get("name")
        if isinstance(name, str) and ("image" in container or name not in found):
            found[name] = (place, container.get("image"))
    for name, (place, image) in found.items():
        if image:
            continue
        if name == MAIN_CONTAINER:
            what = "cannot be removed: the program needs one"
            hint = "remove it, or write an image"
        else:
            what = f"is required: only the program's container, {MAIN_CONTAINER}, has a default"
            hint = f"write it, or name the container {MAIN_CONTAINER}"
        yield _problem(f"{place}.image", what, hint)
    for place, container in _plain(spec, "initContainers", path):
        if not container.get("image"):
            yield _problem(f"{place}.image", "is required", "write it")


def _names(spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject containers without a name, and init containers with the name of another one."""
    owners = {MAIN_CONTAINER: "the program's container"}
    for place, container in _plain(spec, "containers", path):
        if name := container.get("name"):
            owners.setdefault(str(name), place.removeprefix(f"{path}."))
        elif "name" in container:  # The merge reports which container has no name.
            yield _problem(f"{place}.name", "is required", "write its name")
    for place, container in _plain(spec, "initContainers", path):
        if not (name := container.get("name")):
            yield _problem(f"{place}.name", "is required", "write its name")
        elif str(name) in owners:
            what = f"{json.dumps(name)} is also the name of {owners[str(name)]}"
            yield _problem(f"{place}.name", what, "write another name")
        else:
            owners[str(name)] = place.removeprefix(f"{path}.")


def _labels(spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject invalid names of containers and volumes."""
    for field in (*_CONTAINERS, "volumes"):
        for place, item in _plain(spec, field, path):
            name = item.get("name")
            if not isinstance(name, str) or not name:
                continue
            if not _LABEL.fullmatch(name):
                what = f"{json.dumps(name)} is not a DNS label"
                yield _problem(f"{place}.name", what, "write lowercase letters, digits and hyphens")
            elif len(name) > LABEL_MAXIMUM:
                what = f"has {len(name)} characters"
                yield _problem(f"{place}.name", what, f"write at most {LABEL_MAXIMUM}")


def _amounts(spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject requests above their limits, if one item of a list has both."""
    for field in _CONTAINERS:
        found = list(_plain(spec, field, path))
        times = Counter(str(container.get("name")) for _, container in found)
        for place, container in found:
            # A second item of the same name may have another limit.
            if times[str(container.get("name"))] == 1:
                resources = _object(container.get("resources"))
                yield from _requests(resources, f"{place}.resources.requests")


def _object(value: Any) -> dict[str, Any]:
    """Return an object; an empty one for another value or a merge directive."""
    return value if isinstance(value, dict) and "$patch" not in value else {}


def _requests(resources: Mapping[str, Any], path: str) -> Iterator[Problem]:
    limits = _object(resources.get("limits"))
    for key, wanted in _object(resources.get("requests")).items():
        granted, name = limits.get(key), str(key)
        place = _place_of(name, path)
        limit, request = _amount(granted), _amount(wanted)
        if limit is None or request is None:
            continue
        is_extended = "/" in name and "kubernetes.io/" not in name
        # Kubernetes never overcommits these.
        if (is_extended or name.startswith("hugepages-")) and request != limit:
            what = f"is {wanted}, and its limit {granted}: they must be equal for this resource"
            yield _problem(place, what, "remove it")
        elif request > limit:
            what = f"is {wanted}, more than its limit of {granted}"
            yield _problem(place, what, f"write at most {granted}, or a higher limit")


def _amount(value: Any) -> Fraction | None:
    """Return an amount as a number; None for a null, or for what is no quantity."""
    try:
        return parse(value)
    except ValueError:
        return None


def _toleration(toleration: Mapping[str, Any], path: str) -> Iterator[Problem]:
    operator = toleration.get("operator") or "Equal"
    if operator not in _TOLERATION_OPERATORS:
        what = f"{json.dumps(operator)} is not possible"
        yield _problem(f"{path}.operator", what, "write Exists or Equal")
    elif not toleration.get("key") and operator != "Exists":
        what = "must be Exists without a key"
        yield _problem(f"{path}.operator", what, "write Exists, or a key")
    if operator == "Exists" and toleration.get("value"):
        what = "cannot be given with the operator Exists"
        yield _problem(f"{path}.value", what, "remove it, or write Equal")
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        what = "cannot be given with another effect than NoExecute"
        yield _problem(f"{path}.tolerationSeconds", what, "remove it, or write NoExecute")

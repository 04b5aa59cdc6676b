"""The names and types of the fields of a pod template.

The schema preserves templates. An API server drops a field that it does not know, and rejects a pod
with a field of a wrong type, such as ``env: [{name: N, value: 1}]``. Validation finds both first,
with their paths.

A template is a patch: null deletes, and ``$`` begins a merge directive. A field that is not in the
table is wrong only if a known one has almost its name: a newer Kubernetes may know others.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

from imagenet_operator.api.quantities import parse
from imagenet_operator.api.templates.pod_fields import FIELDS, ROOT
from imagenet_operator.errors import Problem

_LIKENESS: Final = 0.7
"""How alike two names are, by difflib, if one may be meant by the other."""


def wrong_types(template: Any, path: str) -> Iterator[Problem]:
    """Yield every field of a template that has the wrong type.

    Args:
        template: A PodTemplateSpec as a manifest gives it.
        path: Its field, such as ``spec.training.workers.template``.
    """
    yield from _wrong(template, ROOT, path)


def misspelled(template: Any, path: str) -> Iterator[Problem]:
    """Yield every field of a template that is unknown and has almost the name of a known one.

    Args:
        template: A PodTemplateSpec as a manifest gives it.
        path: Its field, such as ``spec.training.workers.template``.
    """
    for place, meant in _misspelled(template, ROOT, path):
        yield Problem(place, "is not a field of a pod", f"did you mean {meant}?", "operator")


def without_misspelled(template: Any) -> Any:
    """Return a template without the fields that `misspelled` finds."""
    return _known_part(template, ROOT)


def _misspelled(value: Any, kind: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each misspelled field in a value, and the name that is meant."""
    if isinstance(value, list) and kind.startswith("["):
        for index, item in enumerate(value):
            yield from _misspelled(item, kind[1:-1], f"{path}[{index}]")
    elif isinstance(value, dict) and kind in FIELDS:
        for name in value:
            if (meant := _meant(name, kind)) is not None:
                yield place_of(name, path), meant
        for name, child, place in _fields_of(value, kind, path):
            yield from _misspelled(value[name], child, place)


def _known_part(value: Any, kind: str) -> Any:
    if isinstance(value, list) and kind.startswith("["):
        return [_known_part(item, kind[1:-1]) for item in value]
    if not isinstance(value, dict) or kind not in FIELDS:
        return value
    known = known_fields(kind)
    return {
        name: _known_part(child, known.get(name, "object"))
        for name, child in value.items()
        if _meant(name, kind) is None
    }


def _meant(name: str, kind: str) -> str | None:
    """Return the field that an unknown one may mean."""
    # `pod_validation` has more to say of a template's own fields.
    known = known_fields(kind)
    if kind == ROOT or name in known or name.startswith("$"):
        return None
    return nearest(name, known)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like another one, if any is alike."""
    lowered = {item.lower(): item for item in known}
    found = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=_LIKENESS)
    return lowered[found[0]] if found else None


def _wrong(value: Any, kind: str, path: str) -> Iterator[Problem]:
    if value is None or kind == "object":
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
    """Return the fields of one of the table's objects, such as ``PodSpec``, with their types."""
    parts = (field.partition(":") for field in FIELDS[kind].split())
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

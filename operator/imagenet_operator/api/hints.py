"""Hints what to write instead, which `validate` adds to the API server's messages.

Pure functions over the schema. A hint is a remedy in the imperative, or None.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from pydantic.alias_generators import to_camel

from imagenet_operator.api.crd import root_schema
from imagenet_operator.api.fields import FORMS
from imagenet_operator.api.job import ObjectMeta
from imagenet_operator.api.schema import Schema

Location = Sequence[str | int]
"""The path of a field, from the manifest's root."""


@cache
def _schema() -> Schema:
    return root_schema()


def node_at(location: Location) -> Schema | None:
    """Return the schema of a field, or None."""
    node: Any = _schema()
    for step in location:
        if isinstance(step, int):
            node = node.get("items")
        else:
            node = node.get("properties", {}).get(step) or node.get("additionalProperties")
        if node is None:
            return None
    return dict(node)


def path_of(location: Location) -> str:
    """Format a field's path as the API server does: ``spec.training.model.imageShape[0]``."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.removeprefix(".")


def for_unknown(location: Location) -> str | None:
    """Return the field that an unknown one may mean, or where it belongs."""
    *parent, name = location
    known = _names_in(parent)
    text = str(name)
    if to_camel(text) in known:
        return f"write {to_camel(text)}"
    if nearest := _nearest(text, known):
        return f"did you mean {nearest}?"
    if elsewhere := [path for path in _all_paths() if path.rpartition(".")[2] == text]:
        return f"it belongs to {' or '.join(elsewhere[:3])}"
    return f"known fields: {', '.join(known)}" if known else None


def for_choice(location: Location, value: object) -> str:
    """Return the value that may be meant, or all possible values."""
    allowed = (node_at(location) or {}).get("enum", [])
    if isinstance(value, str):
        if kind := _sibling_that_takes(location, value):
            return f"{value} belongs to {kind}; write one of {', '.join(allowed)}"
        if nearest := _nearest(value, allowed):
            return f"did you mean {nearest}?"
    return f"write {'one of ' if len(allowed) > 1 else ''}{', '.join(allowed)}"


def for_missing(location: Location) -> str:
    """Return what a required field takes."""
    return f"write {kind_of(node_at(location) or {})}"


def for_type(location: Location, value: object) -> str:
    """Return how to write a value of the wrong type as the right type."""
    node = node_at(location) or {}
    kind = node.get("type")
    if isinstance(value, str) and kind in {"integer", "number", "boolean"}:
        bare = value.strip().lower() if kind == "boolean" else value.strip()
        if _reads_as(bare, kind):
            return f"write {bare} without quotes"
    if isinstance(value, int | float) and kind == "string":
        return f'write "{str(value).lower() if isinstance(value, bool) else value}" in quotes'
    if kind == "array" and not isinstance(value, dict | list):
        return f"write [{value}]"
    return f"write {kind_of(node)}"


def for_pattern(pattern: str) -> str | None:
    """Return an example or description of a text that matches a pattern."""
    return f"write {FORMS[pattern]}" if pattern in FORMS else None


def kind_of(node: Schema) -> str:
    """Describe a schema in words: ``an integer of at least 1``."""
    if "enum" in node:
        return " or ".join(node["enum"])
    if node.get("pattern") in FORMS:
        return FORMS[node["pattern"]]
    kind = node.get("type")
    if kind == "object" and "properties" in node:
        return f"an object with {', '.join(node.get('required') or list(node['properties'])[:4])}"
    if kind == "array":
        return f"a list, each item {kind_of(node['items'])}"
    words = {"integer": "an integer", "number": "a number", "boolean": "true or false"}
    word = words.get(str(kind), "an object" if kind == "object" else "text")
    least = node.get("minimum")
    return f"{word} of at least {least}" if least and "exclusiveMinimum" not in node else word


def _names_in(location: Location) -> list[str]:
    if list(location) == ["metadata"]:
        return [field.alias or name for name, field in ObjectMeta.model_fields.items()]
    return list((node_at(location) or {}).get("properties", {}))


def _nearest(word: str, known: Sequence[str]) -> str | None:
    lowered = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.7)
    return lowered[found[0]] if found else None


@cache
def _all_paths() -> tuple[str, ...]:
    return tuple(_walk(_schema()["properties"]["spec"], "spec"))


def _walk(node: Schema, path: str) -> Iterator[str]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _walk(child, f"{path}.{name}")


def _sibling_that_takes(location: Location, value: str) -> str | None:
    """Return the other kind of the same union whose field of this name takes the value."""
    if len(location) < 3:
        return None
    *union, kind, name = location
    others = (node_at(union) or {}).get("properties", {})
    for other, node in others.items():
        if other != kind and value in node.get("properties", {}).get(name, {}).get("enum", ()):
            return f"{path_of(union)}.{other}"
    return None


def _reads_as(text: str, kind: str) -> bool:
    if kind == "boolean":
        return text in {"true", "false"}
    try:
        float(text) if kind == "number" else int(text)
    except ValueError:
        return False
    return True

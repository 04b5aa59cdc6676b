"""Helpers to find the fields of a pod template that conflict with the operator.

`owned_fields` and `security_floor` have tables of such fields. These functions walk a template of
any shape, and create the problems.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from imagenet_spec.errors import Problem


@dataclass(frozen=True)
class Owned:
    """Why a field belongs to the operator, and the values that are accepted."""

    why: str
    harmless: tuple[Any, ...] = ()


def conflict(path: str, why: str, hint: str = "remove it") -> Problem:
    """Return the problem of a field that belongs to the operator."""
    return Problem(path, f"cannot be overridden: {why}", hint, "operator")


def misshapen(value: Any, kind: type, path: str) -> Iterator[Problem]:
    """Yield a problem if a value is not the expected object or list."""
    if not isinstance(value, kind):
        words = "an object" if kind is dict else "a list"
        yield Problem(path, f"must be {words}", "remove it, or write its content", "operator")


def directives(mapping: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Reject merge directives that would remove the operator's values."""
    for key in mapping:
        if key in {"$patch", "$retainKeys"}:
            yield conflict(f"{path}.{key}", "it would remove fields that the operator sets")


def owned(mapping: Mapping[str, Any], table: Mapping[str, Owned], path: str) -> Iterator[Problem]:
    """Reject the fields of a table, unless they have an accepted value."""
    for key, field in table.items():
        if key in mapping and mapping[key] not in field.harmless:
            hint = "remove it"
            for value in field.harmless[:1]:
                hint += f", or write {value if isinstance(value, str) else json.dumps(value)}"
            yield conflict(f"{path}.{key}", field.why, hint)


def items(
    parent: Mapping[str, Any], field: str, path: str
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, path and content of a list's objects; other items are not conflicts."""
    values = parent.get(field)
    for index, item in enumerate(values if isinstance(values, list) else ()):
        if isinstance(item, dict):
            yield str(item.get("name", "")), f"{path}.{field}[{index}]", item


def listed(value: Any) -> list[Any]:
    """Return the items of a list, or another value as the only item; empty if absent."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]

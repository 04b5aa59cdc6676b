"""What a look for a pod template's conflicts with the operator is made of.

`templates` and `security_floor` each know fields that are not the user's; here is how both walk
through a template, whatever shape it has, and how they say what they find.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from imagenet_operator.errors import Problem


@dataclass(frozen=True)
class Owned:
    """Why a field is not the user's, and the values that change nothing."""

    why: str
    harmless: tuple[Any, ...] = ()


def conflict(path: str, why: str, hint: str = "remove it") -> Problem:
    """Return the problem of a field that is the operator's."""
    return Problem(path, f"cannot be overridden: {why}", hint, "operator")


def misshapen(value: Any, kind: type, path: str) -> Iterator[Problem]:
    """Yield a problem where something else stands than the object or list that has to."""
    if not isinstance(value, kind):
        words = "an object" if kind is dict else "a list"
        yield Problem(path, f"must be {words}", "remove it or give it content", "operator")


def directives(mapping: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Refuse merge directives where they would take away what the operator has put there."""
    for key in mapping:
        if key in {"$patch", "$retainKeys"}:
            yield conflict(f"{path}.{key}", "it would remove fields that the operator sets")


def owned(mapping: Mapping[str, Any], table: Mapping[str, Owned], path: str) -> Iterator[Problem]:
    """Refuse the fields of a table, unless they have a value that changes nothing."""
    for key, field in table.items():
        if key in mapping and mapping[key] not in field.harmless:
            hints = ["remove it", *(f"write {_written(value)}" for value in field.harmless[:1])]
            yield conflict(f"{path}.{key}", field.why, ", or ".join(hints))


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def items(
    parent: Mapping[str, Any], field: str, path: str
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, path and content of a list's objects; what else it holds is no conflict."""
    values = parent.get(field)
    for index, item in enumerate(values if isinstance(values, list) else ()):
        if isinstance(item, dict):
            yield str(item.get("name", "")), f"{path}.{field}[{index}]", item


def listed(value: Any) -> list[Any]:
    """Return the items of a list, or what stands in place of one; none if nothing does."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]

"""Checks that a document is valid in JSON, so that an API server can receive it.

YAML has more: binary data, sets, times, numbers of any size, and recursive aliases. `load` checks
every parsed document, and `validate` checks documents of other origin.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import date
from typing import Any

from imagenet_operator.api import hints
from imagenet_operator.errors import Problem

DEPTH_MAXIMUM = 100
"""The deepest nesting of lists and objects. A pod template needs a dozen; Python's limit is some
hundreds."""

VALUES_MAXIMUM = 100_000
"""The most values of a document. Aliases are expanded, so ten lines of YAML could need more memory
than any machine has."""

_Fault = tuple[str, str]
"""The problem of a value, and what to write instead."""

_FOREIGN: tuple[tuple[type | tuple[type, ...], _Fault], ...] = (
    ((bytes, bytearray), ("is binary data (!!binary)", "write it as text in quotes")),
    (date, ("is a time (!!timestamp)", "write it as text in quotes")),
    ((set, frozenset), ("is a set (!!set)", "write a list")),
    (tuple, ("is a pair (!!omap or !!pairs)", "write an object")),
    (object, ("is a Python object", "write a JSON value")),
)
_NO_NUMBER = ("is not a finite number of at most 308 digits", "write one")
_HALF = ("holds half of a character (a lone surrogate)", "write the whole one")
_KEY = ("has a key that is not text", "write it in quotes")
_ITSELF = ("contains itself", "write the values without an alias")
_DEEP = (f"is nested more than {DEPTH_MAXIMUM} deep", "write fewer levels")
_LARGE = (
    f"has more than {VALUES_MAXIMUM} values with every alias written out",
    "leave some of them out",
)


def faults(document: Any) -> Iterator[Problem]:
    """Yield every field of a document whose value is not valid in JSON.

    A key may be a number, true or false: `kubectl apply` and Python both convert it to text.
    """
    for number, (location, fault) in enumerate(_walk(document, (), ()), start=1):
        if number > VALUES_MAXIMUM:
            yield _problem((), _LARGE)
            return
        if fault is not None:
            yield _problem(location, fault)


_Location = tuple[str | int, ...]


def _walk(
    value: Any, location: _Location, above: tuple[int, ...]
) -> Iterator[tuple[_Location, _Fault | None]]:
    """Yield the path of every value, and its problem if any.

    Args:
        value: The first value.
        location: Its path.
        above: The identities of the lists and objects around it.
    """
    if not isinstance(value, dict | list):
        yield location, _fault(value)
    elif id(value) in above:
        yield location, _ITSELF
    elif len(above) == DEPTH_MAXIMUM:
        yield location, _DEEP
    else:
        yield location, None if isinstance(value, list) or all(map(_is_key, value)) else _KEY
        for step, child in _children(value):
            yield from _walk(child, (*location, step), (*above, id(value)))


def _children(value: list[Any] | dict[Any, Any]) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, list):
        yield from enumerate(value)
    else:
        yield from ((str(key), child) for key, child in value.items() if _is_key(key))


def _is_key(key: Any) -> bool:
    return isinstance(key, str | int | float) and _fault(key) is None


def _fault(value: Any) -> _Fault | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # False for nan too; integers of any length are compared exactly.
        return None if -sys.float_info.max <= value <= sys.float_info.max else _NO_NUMBER
    if isinstance(value, str):
        return None if _is_whole(value) else _HALF
    return next(fault for kinds, fault in _FOREIGN if isinstance(value, kinds))


def _is_whole(text: str) -> bool:
    try:
        # JSON escapes a character beyond 16 bits as a surrogate pair, which YAML reads as two.
        text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return False
    return True


def _problem(location: _Location, fault: _Fault) -> Problem:
    message, hint = fault
    path = hints.path_of(location[:4]) + "…" if fault is _DEEP else hints.path_of(location)
    return Problem(path, message, hint, "document")

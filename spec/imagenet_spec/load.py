"""Reads manifests from a file as `kubectl apply -f` does.

PyYAML differs from Kubernetes: it accepts duplicate keys, and parses ``1e-4`` as text, ``1:30`` as
ninety, and dates. This loader corrects all four.

YAML has more than JSON, and so than an API server can receive: binary data, sets, times, numbers of
any size, and recursive aliases. `faults` finds them in every parsed document, and `validate` asks
it about documents of other origin.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from imagenet_spec.errors import Problem, UnreadableManifest
from imagenet_spec.resource.base import Manifest

Location = Sequence[str | int]
"""The path of a field, from the manifest's root."""

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

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*|0x[0-9a-fA-F]+|0o?[0-7]+)$")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")


class _Loader(yaml.SafeLoader):
    """A SafeLoader with Kubernetes' numbers, times as text, and no duplicate keys."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own interface
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag.rpartition(":")[2] not in {"int", "float", "timestamp"}
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (AttributeError, LookupError, ValueError) as error:
            # PyYAML trusts an explicit tag, whatever the text is.
            tag = node.tag.removeprefix("tag:yaml.org,2002:")
            raise yaml.MarkedYAMLError(
                problem=f"is no !!{tag}; leave the tag out", problem_mark=node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        # An explicit !!map may precede another node; super() reports that.
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a key must be text", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is given twice; keep one",
                    problem_mark=key.start_mark,
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    text = loader.construct_scalar(node)
    try:
        return int(text, 8 if _OCTAL.fullmatch(text) else 0)
    except ValueError:
        # Python parses up to 4300 digits. Longer numbers become infinity, as 1e999 does; `faults`
        # rejects both with their field.
        return float(text)


def _number(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node))


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def parse(text: str, source: str) -> list[Manifest]:
    """Return the documents of a YAML (or JSON) text, without the empty ones.

    `source` is its name in errors, such as its path.

    Raises:
        UnreadableManifest: It is not YAML, has a duplicate key, no document, or one that is not an
            object or not valid in JSON. The message has the line or the field.
    """
    found = documents(text, source)
    if not found:
        raise UnreadableManifest(source, "holds no manifest; write one of kind ImageNetJob")
    for document in found:
        if not isinstance(document, dict):
            kind = "a list" if isinstance(document, list) else "a text"
            raise UnreadableManifest(
                source, f"holds {kind}, not an object with apiVersion, kind, metadata and spec"
            )
    return found


def documents(text: str, source: str) -> list[Any]:
    """Return the non-empty documents of a YAML text, of any content.

    Raises:
        UnreadableManifest: It is not YAML, has a duplicate key, or is not valid in JSON.
    """
    try:
        read = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = str(error.problem)
        if mark is not None and mark.buffer is not None and mark.buffer[mark.pointer :][:1] == "\t":
            problem = "a tab cannot indent; write spaces"
        raise UnreadableManifest(source, f"{place}{problem}") from error
    except yaml.YAMLError as error:
        raise UnreadableManifest(source, f"is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise UnreadableManifest(source, "is too deeply nested") from None
    found = [document for document in read if document is not None]
    for number, document in enumerate(found, start=1):
        for fault in faults(document):
            place = f"document {number}: " if len(found) > 1 else ""
            raise UnreadableManifest(source, f"{place}{fault}")
    return found


def load(path: Path) -> list[Manifest]:
    """Return the documents of a file.

    Raises:
        UnreadableManifest: The file cannot be read, or `parse` rejects its text.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except IsADirectoryError as error:
        raise UnreadableManifest(
            str(path), "is a folder; write the path of a manifest in it"
        ) from error
    except FileNotFoundError as error:
        raise UnreadableManifest(str(path), "no such file; write the path of a manifest") from error
    except OSError as error:
        raise UnreadableManifest(str(path), (error.strerror or str(error)).lower()) from error
    except UnicodeDecodeError as error:
        raise UnreadableManifest(str(path), "is not UTF-8 text") from error
    return parse(text, str(path))


def faults(document: Any) -> Iterator[Problem]:
    """Yield every field of a document whose value is not valid in JSON.

    A key may be a number, true or false: `kubectl apply` and Python both convert it to text.
    """
    for number, (location, fault) in enumerate(_walk(document, (), ()), start=1):
        if number > VALUES_MAXIMUM:
            location, fault = (), _LARGE
        if fault is not None:
            path = path_of(location[:4]) + "…" if fault is _DEEP else path_of(location)
            yield Problem(path, *fault, "document")
        if fault is _LARGE:
            return


def _walk(
    value: Any, location: tuple[str | int, ...], above: tuple[int, ...]
) -> Iterator[tuple[tuple[str | int, ...], _Fault | None]]:
    """Yield the path of every value, and its problem if any.

    `above` has the identities of the lists and objects around it.
    """
    if not isinstance(value, dict | list):
        yield location, _fault(value)
    elif id(value) in above:
        yield location, _ITSELF
    elif len(above) == DEPTH_MAXIMUM:
        yield location, _DEEP
    elif isinstance(value, list):
        yield location, None
        for index, child in enumerate(value):
            yield from _walk(child, (*location, index), (*above, id(value)))
    else:
        yield location, None if all(map(_is_key, value)) else _KEY
        for key, child in value.items():
            if _is_key(key):
                yield from _walk(child, (*location, str(key)), (*above, id(value)))


def _is_key(key: Any) -> bool:
    return isinstance(key, str | int | float) and _fault(key) is None


def _fault(value: Any) -> _Fault | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # False for nan too; integers of any length are compared exactly.
        return None if -sys.float_info.max <= value <= sys.float_info.max else _NO_NUMBER
    if isinstance(value, str):
        try:
            # JSON escapes a character beyond 16 bits as a surrogate pair, which YAML reads as two.
            value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            return _HALF
        return None
    return next(fault for kinds, fault in _FOREIGN if isinstance(value, kinds))


def path_of(location: Location) -> str:
    """Format a field's path as the API server does: ``spec.training.model.imageShape[0]``."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.removeprefix(".")

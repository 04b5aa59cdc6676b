"""Reads manifests from a file as `kubectl apply -f` does.

PyYAML differs from Kubernetes: it accepts duplicate keys, and parses ``1e-4`` as text, ``1:30`` as
ninety, and dates. This loader corrects all four, and `plain` rejects what JSON lacks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from imagenet_operator.api import plain
from imagenet_operator.api.base import Manifest
from imagenet_operator.errors import UnreadableManifest

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
        # Python parses up to 4300 digits. Longer numbers become infinity, as 1e999 does; `plain`
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

    Args:
        text: The text.
        source: Its name in errors, such as its path.

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

    Args:
        text: The text.
        source: Its name in errors.

    Raises:
        UnreadableManifest: It is not YAML, has a duplicate key, or is not valid in JSON.
    """
    try:
        read = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UnreadableManifest(source, f"{place}{_in_words(error)}") from error
    except yaml.YAMLError as error:
        raise UnreadableManifest(source, f"is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise UnreadableManifest(source, "is too deeply nested") from None
    found = [document for document in read if document is not None]
    for number, document in enumerate(found, start=1):
        for problem in plain.faults(document):
            place = f"document {number}: " if len(found) > 1 else ""
            raise UnreadableManifest(source, f"{place}{problem}")
    return found


def _in_words(error: yaml.MarkedYAMLError) -> str:
    """Return what is wrong at the mark, and for a tab also what to write."""
    mark = error.problem_mark
    if mark is not None and mark.buffer is not None and mark.buffer[mark.pointer :][:1] == "\t":
        return "a tab cannot indent; write spaces"
    return str(error.problem)


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

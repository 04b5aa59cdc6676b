"""Read manifests from a file as `kubectl apply -f` would, before anything judges them.

PyYAML's own rules differ from Kubernetes' in ways that bite: a key given twice is taken silently,
``1e-4`` is a text, ``1:30`` is ninety and a date is no JSON. The loader here settles all four.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml

from imagenet_operator.api.base import Manifest
from imagenet_operator.errors import UnreadableManifest

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*|0x[0-9a-fA-F]+|0o?[0-7]+)$")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")


class _Loader(yaml.SafeLoader):
    """SafeLoader with Kubernetes' idea of numbers, times as text, and no key twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own interface
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag.rpartition(":")[2] not in {"int", "float", "timestamp"}
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
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


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text, 8 if _OCTAL.fullmatch(text) else 0)


def _number(loader: _Loader, node: yaml.ScalarNode) -> float:
    value = float(loader.construct_scalar(node))
    if not math.isfinite(value):
        raise yaml.MarkedYAMLError(problem="not a finite number", problem_mark=node.start_mark)
    return value


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def parse(text: str, source: str) -> list[Manifest]:
    """Return the documents of a YAML (or JSON) text, without the empty ones.

    Args:
        text: The text.
        source: What to call it in errors, such as its path.

    Raises:
        UnreadableManifest: It is not YAML, has a key twice, holds no document, or one that is not
            an object. The message gives the line.
    """
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UnreadableManifest(source, f"{place}{_in_words(error)}") from error
    except yaml.YAMLError as error:
        raise UnreadableManifest(source, f"is not YAML: {error}") from error
    except RecursionError:
        raise UnreadableManifest(source, "is too deeply nested") from None
    found = [document for document in documents if document is not None]
    if not found:
        raise UnreadableManifest(source, "holds no manifest; write one of kind ImageNetJob")
    for document in found:
        if not isinstance(document, dict):
            kind = "a list" if isinstance(document, list) else "a text"
            raise UnreadableManifest(
                source, f"holds {kind}, not an object with apiVersion, kind, metadata and spec"
            )
    return found


def _in_words(error: yaml.MarkedYAMLError) -> str:
    """What is wrong at the mark; of a tab, which no editor shows, also what to write."""
    mark = error.problem_mark
    if mark is not None and mark.buffer is not None and mark.buffer[mark.pointer :][:1] == "\t":
        return "a tab cannot indent; write spaces"
    return str(error.problem)


def load(path: Path) -> list[Manifest]:
    """Return the documents of a file.

    Raises:
        UnreadableManifest: The file cannot be read, or `parse` refuses its text.
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

"""`--set PATH=VALUE`: a field of the manifest for one run, with the file as it is.

A path is written as in error messages: `spec.training.optimizer.stepEpochs[0]`, and in quotes if a
name has dots: `metadata.labels["kueue.x-k8s.io/queue-name"]`. A value is YAML, and text where the
schema has text. What the schema does not know is found by the validation that follows.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from imagenet_spec.errors import ImageNetJobError, Problem, UnreadableManifest
from imagenet_spec.load import documents, path_of
from imagenet_spec.resource import Manifest
from imagenet_spec.validate import node_at

OPTION = "--set"

_STEP = re.compile(r"""(?:^|\.)([^\s.=\[\]"]+)|\[([0-9]+)\]|\["([^"]+)"\]""")
"""A name, an index, or a name in quotes."""


@dataclass(frozen=True)
class Override:
    """A field and its value for one run, as it was typed and as read; None leaves the field out."""

    path: tuple[str | int, ...]
    text: str
    value: Any

    def __str__(self) -> str:
        return path_of(self.path)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Declare --set, for `apply`."""
    parser.add_argument(
        OPTION,
        type=_override,
        action="append",
        default=[],
        dest="overrides",
        metavar="PATH=VALUE",
        help="a field for this run, as spec.training.epochs=2; the value is YAML, and null leaves "
        "the field out; repeatable",
    )


def apply(document: Manifest, overrides: Sequence[Override]) -> Manifest:
    """Return a manifest with fields changed; the document stays as it is.

    Raises:
        ImageNetJobError: A path leads through a value that has no fields, or beyond a list's end.
    """
    changed = copy.deepcopy(document)
    for override in overrides:
        parent: Any = changed
        for number, step in enumerate(override.path):
            place = path_of(override.path[:number])
            _check_step(override, place, parent, step)
            if number == len(override.path) - 1:
                _put(parent, step, override.value)
            elif isinstance(step, int):
                parent = parent[step]
            else:
                if parent.get(step) is None:
                    parent[step] = {}
                parent = parent[step]
    return changed


def is_source(problem: Problem, overrides: Sequence[Override]) -> bool:
    """Return whether a problem is in a field that an override has set."""
    return any(
        f"{long}.".startswith((f"{short}.", f"{short}["))
        for override in overrides
        for long, short in ((str(override), problem.path), (problem.path, str(override)))
        if short
    )


def _check_step(override: Override, place: str, parent: Any, step: str | int) -> None:
    if isinstance(step, str):
        if isinstance(parent, dict):
            return
        example = f"{place}[0]" if isinstance(parent, list) else place
        kind = "a list" if isinstance(parent, list) else json.dumps(parent)
        fault = f"{place} is {kind} and has no field {step!r}; write {OPTION} {example}=…"
    elif not isinstance(parent, list):
        fault = f"{place} is no list in the manifest; write {OPTION} '{place}=[…]'"
    elif step < len(parent):
        return
    else:
        last = f"the last index is {len(parent) - 1}" if parent else "the list is empty"
        fault = f"{place} has no item {step}; {last}; the whole list is {OPTION} '{place}=[…]'"
    raise ImageNetJobError(f"{OPTION} {override}: {fault}")


def _put(parent: Any, step: str | int, value: Any) -> None:
    if value is not None:
        parent[step] = value
    elif isinstance(step, int):
        del parent[step]
    else:
        parent.pop(step, None)


def _override(text: str) -> Override:
    path: list[str | int] = []
    end = 0
    while (step := _STEP.match(text, end)) is not None:
        name, index, quoted = step.groups()
        path.append(int(index) if index is not None else quoted or name)
        end = step.end()
    if not path or text[end : end + 1] != "=":
        raise argparse.ArgumentTypeError(
            f"{text!r} is not PATH=VALUE; write it as spec.training.epochs=2"
        )
    return Override(tuple(path), text[end + 1 :], _value(tuple(path), text[end + 1 :]))


def _value(path: tuple[str | int, ...], text: str) -> Any:
    """Return the value of a text, by the type that the schema gives the field."""
    if not text.strip():
        raise argparse.ArgumentTypeError(
            f"{path_of(path)} has no value; write null to leave the field out"
        )
    try:
        # The text of a document end, such as `---`, is no value either.
        read = documents(text, path_of(path)) or [None]
    except UnreadableManifest as error:
        raise argparse.ArgumentTypeError(f"{error}; write a value in YAML") from error
    if len(read) > 1:
        raise argparse.ArgumentTypeError(f"{path_of(path)}: {text!r} is several YAML documents")
    (value,) = read
    # Texts are all that a user writes into the metadata.
    is_text = path[0] == "metadata" or (node_at(path) or {}).get("type") == "string"
    return text if is_text and isinstance(value, bool | int | float) else value

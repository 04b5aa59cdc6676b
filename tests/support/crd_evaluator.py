"""What an API server says of a manifest by a CRD, as far as two libraries can play its part.

jsonschema evaluates the structural schema and celpy the rules, beside pydantic and another CEL in
`validate`. The order of the API server around them (unknown fields, which errors keep the rules
from being evaluated) is written out here from k8s.io/apiextensions-apiserver. Nothing of the models
is used but the CRD itself.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast

import celpy
import jsonschema
from celpy.adapter import json_to_cel
from celpy.evaluation import CELFunction

from imagenet_spec.resource.schema import completed
from imagenet_spec.rules import Rule, broken

Node = dict[str, Any]
Holds = Callable[[str, Any, Any], bool]
"""Whether an expression is true of a value, and of the stored one or None."""

# Errors after which the API server does not evaluate rules (hasBlockingErr).
_BLOCKING = {"required", "type", "enum", "maxLength", "maxItems", "maxProperties"}


def problem_paths(schema: Node, document: Node, stored: Node | None = None) -> set[str]:
    """Return the path of each error that an API server would report.

    Args:
        schema: The openAPIV3Schema of the CRD's version.
        document: The object that is created, or the new content of an update.
        stored: The object as it is stored, for an update.
    """
    return {path for path, _ in _errors(schema, document, stored, _holds)}


def broken_rules(schema: Node, document: Node, stored: Node | None = None) -> set[str]:
    """Return the expressions of the rules that are false; arguments as of `problem_paths`.

    The product's CEL evaluates them, because celpy needs minutes for the whole corpus.
    """
    return {rule for _, rule in _errors(schema, document, stored, _holds_fast) if rule}


def prune(schema: Node, document: Any) -> None:
    """Remove the fields that a schema does not know, as the API server does."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(document, dict) and "additionalProperties" not in schema:
        for name in document.keys() - schema.get("properties", {}).keys():
            del document[name]
    for _, node, child in _children(schema, document):
        prune(node, child)


def _errors(
    schema: Node, document: Node, stored: Node | None, holds: Holds
) -> set[tuple[str, str]]:
    """Return the path of each error, and the expression of the rule if one is false."""
    unknown = set(_unknown(schema, document, ""))
    if unknown:
        return {(path, "") for path in unknown}
    candidate = _admitted(schema, document)
    before = None if stored is None else _admitted(schema, stored)
    if before is not None:
        candidate["status"] = before.get("status", {})
    else:
        candidate.pop("status", None)
    errors = list(jsonschema.Draft4Validator(schema).iter_errors(candidate))
    found = {(path, "") for error in errors for path in _paths(error)}
    if not any(error.validator in _BLOCKING for error in errors):
        found |= set(_broken_rules(schema, candidate, before, "", holds))
    return found


def _admitted(schema: Node, document: Node) -> Node:
    """Return an object as kubectl sends it and the API server completes it."""
    whole: Node = completed(copy.deepcopy(document), schema)
    metadata = whole.setdefault("metadata", {})
    if "name" not in metadata and "generateName" in metadata:
        metadata["name"] = metadata["generateName"] + "x4k2b"
    return whole


def _children(schema: Node, value: Any) -> Iterator[tuple[str, Node, Any]]:
    """Yield what is below a value: how the path goes on, the schema, the content."""
    if isinstance(value, dict):
        for name, child in value.items():
            node = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if node is not None:
                yield f".{name}", node, child
    if isinstance(value, list) and "items" in schema:
        for index, child in enumerate(value):
            yield f"[{index}]", schema["items"], child


def _unknown(schema: Node, value: Any, path: str) -> Iterator[str]:
    if path == ".metadata" or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict) and "additionalProperties" not in schema:
        for name in value.keys() - schema.get("properties", {}).keys():
            yield f"{path}.{name}".removeprefix(".")
    for step, node, child in _children(schema, value):
        yield from _unknown(node, child, path + step)


def _paths(error: jsonschema.ValidationError) -> Iterator[str]:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    path = "".join(steps)
    if error.validator == "required":
        required, given = cast(list[str], error.validator_value), cast(Node, error.instance)
        missing = [name for name in required if name not in given]
        yield from (f"{path}.{name}".removeprefix(".") for name in missing)
    else:
        yield path.removeprefix(".")


def _broken_rules(
    schema: Node, value: Any, before: Any, path: str, holds: Holds
) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if ("oldSelf" not in rule["rule"] or before is not None) and not holds(
            rule["rule"], value, before
        ):
            yield (path + rule.get("fieldPath", "")).removeprefix("."), rule["rule"]
    for step, node, child in _children(schema, value):
        # Only the root has transition rules here, so what was stored is not followed down.
        yield from _broken_rules(node, child, None, path + step, holds)


def _is_sorted(items: Any) -> celpy.celtypes.BoolType:
    return celpy.celtypes.BoolType(list(items) == sorted(items))


# Of Kubernetes' own CEL library.
_LIBRARY: dict[str, CELFunction] = {"isSorted": _is_sorted}


@cache
def _program(expression: str) -> celpy.Runner:
    environment = celpy.Environment()
    return environment.program(environment.compile(expression), functions=_LIBRARY)


def _holds(expression: str, value: Any, before: Any) -> bool:
    return _evaluated(expression, json.dumps(value), json.dumps(before))


@cache
def _evaluated(expression: str, value: str, before: str) -> bool:
    """Evaluate a rule of JSON; most parts of a manifest are those of another one, too."""
    activation = {"self": json_to_cel(json.loads(value))}
    if before != "null":
        activation["oldSelf"] = json_to_cel(json.loads(before))
    return bool(_program(expression).evaluate(activation))


def _holds_fast(expression: str, value: Any, before: Any) -> bool:
    return not list(broken([Rule(expression, "")], value, before))

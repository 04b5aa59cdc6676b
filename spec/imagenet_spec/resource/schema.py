"""The structural schema of the resource, generated from its models.

pydantic's own JSON schema is not structural: it has ``$ref``, ``anyOf`` for optional fields and no
``x-kubernetes`` extensions. Here every node has a type, unions are objects with optional fields and
a rule, and free-form objects are marked. `job.root_schema` wraps the result; `validate`
reads it for hints.

The format: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import AwareDatetime
from pydantic.fields import FieldInfo

from imagenet_spec.resource.base import DefaultWhenRead, MapList, Model, Unit
from imagenet_spec.resource.fields import INT32_MAXIMUM
from imagenet_spec.rules import Rule

Schema = dict[str, Any]

_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}


def of_model(
    model: type[Model], *, has_defaults: bool = True, has_descriptions: bool = False
) -> Schema:
    """Return the schema of a model and all models in it.

    The API server fills in defaults in `spec` but not in `status`. The sentences of fields are read
    from the source.
    """
    below = partial(of_model, has_defaults=has_defaults, has_descriptions=has_descriptions)
    hints = get_type_hints(model, include_extras=True)
    sentences = _sentences(model) if has_descriptions else {}
    properties = {}
    for name, field in model.model_fields.items():
        node = _node(hints[name], below)
        default = field.get_default(call_default_factory=True)
        is_filled = not field.is_required() and not is_default_when_read(field)
        if has_defaults and is_filled and default is not None:
            node["default"] = _plain(default)
        if has_descriptions:
            measured = unit(hints[name])
            words = f"{sentences[name]} Unit: {measured}." if measured else sentences[name]
            node = {"description": words, **node}
        properties[field.alias or name] = node
    required = [
        field.alias or name for name, field in model.model_fields.items() if field.is_required()
    ]
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if model.rules:
        schema["x-kubernetes-validations"] = [of_rule(rule) for rule in model.rules]
    return schema


def completed(value: Any, node: Schema, doubles: bool = True) -> Any:
    """Return a value as the API server completes it, before it evaluates rules.

    Null fields are dropped, absent ones get their default, and numbers have the type of their
    field: 8.0 is the integer 8, and with `doubles`, for the rules, 8 is the number 8.0. What the
    schema does not know stays, and the value need not be valid.
    """
    if isinstance(value, dict) and "properties" in node:
        known = node["properties"]
        given = {
            name: completed(child, known[name], doubles) if name in known else child
            for name, child in value.items()
            if child is not None or name not in known
        }
        defaults = {
            name: completed(child["default"], child, doubles)
            for name, child in known.items()
            if "default" in child and name not in given
        }
        return {**given, **defaults}
    if isinstance(value, list) and "items" in node:
        return [completed(child, node["items"], doubles) for child in value]
    if isinstance(value, float) and node.get("type") == "integer" and value.is_integer():
        return int(value)
    if doubles and type(value) is int and node.get("type") == "number":
        return float(value)
    return value


def of_rule(rule: Rule) -> Schema:
    """Return a rule as an entry of ``x-kubernetes-validations``."""
    entry = {"rule": rule.cel, "message": rule.message}
    return {**entry, "fieldPath": f".{rule.field}"} if rule.field else entry


def is_default_when_read(field: FieldInfo) -> bool:
    """Whether a field has a default that only the operator applies."""
    return any(isinstance(mark, DefaultWhenRead) for mark in field.metadata)


def _sentences(model: type[Model]) -> dict[str, str]:
    """Return the docstring below each field in one line, also of the models above it.

    pydantic's `use_attribute_docstrings` would read the source whenever the models are imported,
    which takes a third of that time.
    """
    found = {}
    for parent in reversed(model.__mro__):
        if parent.__module__ != Model.__module__ and issubclass(parent, Model):
            for field, text in pairwise(_classes(parent.__module__)[parent.__name__].body):
                match field, text:
                    case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                        found[name] = " ".join(words.split()).replace("``", "`")
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def unit(hint: Any) -> str | None:
    """Return the unit of a type, also in Optional and Annotated."""
    _, metadata = unwrapped(hint)
    return next((mark.name for mark in metadata if isinstance(mark, Unit)), None)


def _node(hint: Any, below: Callable[[type[Model]], Schema]) -> Schema:
    """Return the schema of a type; `below` gives that of a model."""
    inner, metadata = unwrapped(hint)
    node = _typed(inner, below)
    for mark in metadata:
        node.update(_constraint(node["type"], mark))
    if node["type"] == "integer":
        node["format"] = "int32" if node.get("maximum", 2**53) <= INT32_MAXIMUM else "int64"
    return node


def unwrapped(hint: Any) -> tuple[Any, Sequence[Any]]:
    """Strip Annotated and Optional from a type; the markers come outermost last."""
    origin = get_origin(hint)
    if origin is Annotated:
        first, *metadata = get_args(hint)
        inner, more = unwrapped(first)
        return inner, (*more, *metadata)
    if origin in (Union, types.UnionType):
        (only,) = (option for option in get_args(hint) if option is not types.NoneType)
        return unwrapped(only)
    return hint, ()


_SCALARS: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    AwareDatetime: {"type": "string", "format": "date-time"},
}


def _typed(hint: Any, below: Callable[[type[Model]], Schema]) -> Schema:
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is tuple:
        return {
            "type": "array",
            "items": _node(arguments[0], below),
            "x-kubernetes-list-type": "atomic",
        }
    if origin is dict and arguments[1] is Any:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if origin is dict:
        return {"type": "object", "additionalProperties": _node(arguments[1], below)}
    if isinstance(hint, type) and issubclass(hint, Model):
        return below(hint)
    raise TypeError(f"{hint} has no structural schema")


def _constraint(kind: str, mark: Any) -> Schema:
    """Return what a marker of a type adds to its schema."""
    if isinstance(mark, FieldInfo):
        return {
            key: value for part in mark.metadata for key, value in _constraint(kind, part).items()
        }
    if isinstance(mark, Ge):
        return {"minimum": _plain(mark.ge)}
    if isinstance(mark, Gt):
        return {"minimum": _plain(mark.gt), "exclusiveMinimum": True}
    if isinstance(mark, Le):
        return {"maximum": _plain(mark.le)}
    if isinstance(mark, MinLen):
        return {f"min{_LENGTHS[kind]}": mark.min_length}
    if isinstance(mark, MaxLen):
        return {f"max{_LENGTHS[kind]}": mark.max_length}
    if isinstance(mark, MapList):
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [mark.key]}
    pattern = getattr(mark, "pattern", None)
    return {"pattern": pattern} if pattern else {}


def _plain(default: Any) -> Any:
    """Return a default in JSON's terms, and a whole number as the API server writes it: 1, not 1.0.

    A model's default is expanded. The API server checks a default by the rules before it fills in
    nested defaults. So an empty object would fail a rule that reads one of its fields.
    """
    if isinstance(default, Model):
        values = {
            field.alias or name: getattr(default, name)
            for name, field in type(default).model_fields.items()
            if not is_default_when_read(field)
        }
        return {name: _plain(value) for name, value in values.items() if value is not None}
    if isinstance(default, float) and default.is_integer():
        return int(default)
    return [_plain(item) for item in default] if isinstance(default, tuple) else default

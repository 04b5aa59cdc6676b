"""Validation of a manifest: the rules of the API server, then those of the operator.

The order is that of the API server, so the user sees the same errors: unknown fields, types and
constraints first, then the rules between valid fields, in CEL. The hints what to write instead are
this module's; they follow from the schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from imagenet_spec import rules
from imagenet_spec.errors import InvalidJob, Problem
from imagenet_spec.load import Location, faults, path_of
from imagenet_spec.names import nearest
from imagenet_spec.resource import extra_arguments, schema, templates
from imagenet_spec.resource.base import Manifest, Model
from imagenet_spec.resource.fields import FORMS
from imagenet_spec.resource.job import GROUP, KIND, VERSION, ImageNetJob, ObjectMeta, root_schema
from imagenet_spec.resource.schema import Schema
from imagenet_spec.resource.templates import STANDARD, TemplateProfile

API_VERSION = f"{GROUP}/{VERSION}"


def validate(
    document: Any, stored: Manifest | None = None, profile: TemplateProfile = STANDARD
) -> list[Problem]:
    """Return every reason why a document from `load` would be rejected; never raises.

    `stored` is the job that the manifest updates, if any; its status determines what may change.
    """
    if problems := _document_problems(document):
        return problems
    try:
        job, candidate = _read(document)
    except ValidationError as error:
        found = error.errors(include_url=False)
        misspelt = {
            (*details["loc"][:-1], _meant(details["loc"]))
            for details in found
            if details["type"] == "extra_forbidden"
        }
        return [
            problem(details)
            for details in found
            # A list counts as too short also if one of its items is invalid.
            if not (
                details["type"] == "too_short"
                and len(details["input"]) >= details["ctx"]["min_length"]
            )
            and not (details["type"] == "missing" and details["loc"] in misspelt)
        ]
    before = None
    if stored is not None:
        status = stored.get("status")
        status_schema = _schema()["properties"]["status"]
        candidate["status"] = schema.completed(
            status if isinstance(status, dict) else {}, status_schema
        )
        # Nothing changes in a job that is judged as it is stored: no rule of changes is broken.
        if stored is not document:
            before = {**schema.completed(stored, _schema()), "status": candidate["status"]}
    return [
        *_broken_rules(job, candidate, before, ""),
        *extra_arguments.problems(job.spec.training),
        *templates.operator_problems(job, profile),
    ]


def parse(document: Any) -> ImageNetJob:
    """Return the job of a manifest, with its defaults.

    Raises:
        InvalidJob: `validate` found problems; the error has all of them.
    """
    if problems := validate(document):
        raise InvalidJob(problems)
    return _read(document)[0]


def _document_problems(document: Any) -> list[Problem]:
    if not isinstance(document, dict):
        what = "nothing" if document is None else type(document).__name__
        return [Problem("", f"is {what}, not an object", f"write kind: {KIND}", "document")]
    if problems := list(faults(document)):
        return problems
    return [
        Problem(
            name,
            f"is {document[name]!r}" if document.get(name) else "is missing",
            f"write {wanted}",
            "document",
        )
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND))
        if document.get(name) != wanted
    ]


def _read(document: Manifest) -> tuple[ImageNetJob, Manifest]:
    """Parse a manifest as strictly as the API server, without its status.

    The JSON for the rules is completed, and has the name that the job will get.
    """
    cleaned = {name: value for name, value in document.items() if name != "status"}
    text = json.dumps(schema.completed(cleaned, _schema(), doubles=False))
    job = ImageNetJob.model_validate_json(text, strict=True, by_alias=True, by_name=False)
    candidate = schema.completed(json.loads(text), _schema())
    candidate["metadata"]["name"] = job.metadata.final_name
    return job, candidate


def _broken_rules(model: Model, value: Any, before: Any, path: str) -> Iterator[Problem]:
    """Yield the problems of a model with its completed JSON, and of all models in it.

    `before` is the completed JSON of the stored one, at the root of an update.
    """
    for rule in rules.broken(model.rules, value, before):
        message, hint = rule.explain(model) if rule.explain else (rule.message, rule.hint)
        yield Problem(".".join(filter(None, (path, rule.field))), message, hint)
    for name, field in type(model).model_fields.items():
        alias = field.alias or name
        child, stated = getattr(model, name), value.get(alias)
        place = ".".join(filter(None, (path, alias)))
        # A default that only the operator applies is not in the JSON.
        if isinstance(child, Model) and isinstance(stated, dict):
            yield from _broken_rules(child, stated, None, place)
        if isinstance(child, tuple) and isinstance(stated, list):
            for index, (item, part) in enumerate(zip(child, stated, strict=False)):
                if isinstance(item, Model):
                    yield from _broken_rules(item, part, None, f"{place}[{index}]")


_Wording = Callable[[ErrorDetails], tuple[str, str | None]]


def _type(words: str) -> _Wording:
    return lambda error: (
        f"must be {words}, not {_shown(error['input'])}",
        _hint_for_type(error["loc"], error["input"]),
    )


def _bound(words: str, key: str) -> _Wording:
    return lambda error: (
        f"must be {words} {error['ctx'][key]}, not {_shown(error['input'])}",
        None,
    )


def _size(words: str, key: str) -> _Wording:
    def say(error: ErrorDetails) -> tuple[str, str | None]:
        things = "characters" if isinstance(error["input"], str) else "items"
        return f"must have {words} {error['ctx'][key]} {things}, not {len(error['input'])}", None

    return say


_WORDINGS: dict[str, _Wording] = {
    "missing": lambda error: ("is required", f"write {_kind_of(node_at(error['loc']) or {})}"),
    "extra_forbidden": lambda error: ("unknown field", _hint_for_unknown(error["loc"])),
    "literal_error": lambda error: (
        f"{_shown(error['input'])} is not possible",
        _hint_for_choice(error["loc"], error["input"]),
    ),
    "string_pattern_mismatch": lambda error: (
        f"{_shown(error['input'])} is malformed",
        f"write {form}" if (form := FORMS.get(error["ctx"]["pattern"])) else None,
    ),
    "int_type": _type("an integer"),
    "int_from_float": _type("an integer"),
    "float_type": _type("a number"),
    "bool_type": _type("true or false"),
    "string_type": _type("text"),
    "tuple_type": _type("a list"),
    "dict_type": _type("an object"),
    "model_type": _type("an object"),
    "greater_than_equal": _bound("at least", "ge"),
    "greater_than": _bound("greater than", "gt"),
    "less_than_equal": _bound("at most", "le"),
    "string_too_short": _size("at least", "min_length"),
    "string_too_long": _size("at most", "max_length"),
    "too_short": _size("at least", "min_length"),
    "too_long": _size("at most", "max_length"),
}


def problem(error: ErrorDetails) -> Problem:
    """Return an error of a model in the API server's words."""
    wording = _WORDINGS.get(error["type"])
    message, hint = wording(error) if wording else (error["msg"].lower(), None)
    return Problem(path_of(error["loc"]), message, hint)


def _shown(value: Any) -> str:
    """Return a value as in a manifest, shortened if it is long."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


_schema = cache(root_schema)


def node_at(location: Location) -> Schema | None:
    """Return the schema of a field; None if the schema does not have it."""
    node: Any = _schema()
    for step in location:
        if isinstance(step, int):
            node = node.get("items")
        else:
            node = node.get("properties", {}).get(step) or node.get("additionalProperties")
        if node is None:
            return None
    return dict(node)


def _known(parent: Location) -> list[str]:
    if parent == ("metadata",):
        return [field.alias or name for name, field in ObjectMeta.model_fields.items()]
    return list((node_at(parent) or {}).get("properties", {}))


def _meant(location: Location) -> str | None:
    """Return the field that an unknown one beside it may mean."""
    known, text = _known(location[:-1]), str(location[-1])
    return to_camel(text) if to_camel(text) in known else nearest(text, known)


def _hint_for_unknown(location: Location) -> str | None:
    """Return the field that an unknown one may mean, or where it belongs."""
    known, text = _known(location[:-1]), str(location[-1])
    if (meant := _meant(location)) is not None:
        return f"write {meant}" if meant == to_camel(text) else f"did you mean {meant}?"
    if elsewhere := [path for path in _all_paths() if path.rpartition(".")[2] == text]:
        return f"it belongs to {' or '.join(elsewhere[:3])}"
    return f"known fields: {', '.join(known)}" if known else None


@cache
def _all_paths() -> tuple[str, ...]:
    def walk(node: Schema, path: str) -> Iterator[str]:
        for name, child in node.get("properties", {}).items():
            yield f"{path}.{name}"
            yield from walk(child, f"{path}.{name}")

    return tuple(walk(_schema()["properties"]["spec"], "spec"))


def _hint_for_choice(location: Location, value: object) -> str:
    """Return the value that may be meant, or all possible values."""
    allowed = (node_at(location) or {}).get("enum", [])
    if isinstance(value, str):
        if kind := _sibling_that_takes(location, value):
            return f"{value} belongs to {kind}; write one of {', '.join(allowed)}"
        if (meant := nearest(value, allowed)) is not None:
            return f"did you mean {meant}?"
    return f"write {'one of ' if len(allowed) > 1 else ''}{', '.join(allowed)}"


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


def _hint_for_type(location: Location, value: object) -> str:
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
    return f"write {_kind_of(node)}"


def _reads_as(text: str, kind: str) -> bool:
    if kind == "boolean":
        return text in {"true", "false"}
    try:
        float(text) if kind == "number" else int(text)
    except ValueError:
        return False
    return True


def _kind_of(node: Schema) -> str:
    """Describe a schema in words: ``an integer of at least 1``."""
    if "enum" in node:
        return " or ".join(node["enum"])
    if node.get("pattern") in FORMS:
        return FORMS[node["pattern"]]
    kind = node.get("type")
    if kind == "object" and "properties" in node:
        return f"an object with {', '.join(node.get('required') or list(node['properties'])[:4])}"
    if kind == "array":
        return f"a list, each item {_kind_of(node['items'])}"
    words = {"integer": "an integer", "number": "a number", "boolean": "true or false"}
    word = words.get(str(kind), "an object" if kind == "object" else "text")
    least = node.get("minimum")
    return f"{word} of at least {least}" if least and "exclusiveMinimum" not in node else word

"""Validation of a manifest: the rules of the API server, then those of the operator.

The order is that of the API server, so the user sees the same errors: unknown fields, types and
constraints first, then the rules between valid fields. Rules are evaluated in Python; tests compare
them with their CEL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from imagenet_operator.api import extra_arguments, hints, plain, templates
from imagenet_operator.api.base import Manifest, Model
from imagenet_operator.api.job import GROUP, KIND, VERSION, ImageNetJob
from imagenet_operator.api.templates.profiles import STANDARD, TemplateProfile
from imagenet_operator.errors import InvalidJob, Problem

API_VERSION = f"{GROUP}/{VERSION}"


def validate(
    document: Any, previous: ImageNetJob | None = None, profile: TemplateProfile = STANDARD
) -> list[Problem]:
    """Return every reason why a manifest would be rejected.

    Never raises for an invalid manifest.

    Args:
        document: A document from `load`.
        previous: The stored job, if the manifest updates it; its status determines what may change.
        profile: The operator's template profile.
    """
    if problems := _document_problems(document):
        return problems
    try:
        job = _read(document)
    except ValidationError as error:
        return [
            problem(details) for details in error.errors(include_url=False) if not _is_echo(details)
        ]
    if previous is not None:
        job = job.model_copy(update={"status": previous.status})
    problems = list(_broken_rules(job, ""))
    if previous is not None:
        problems += [
            Problem(rule.field, rule.message)
            for rule in ImageNetJob.transition_rules
            if not rule.holds(job, previous)
        ]
    return [
        *problems,
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
    return _read(document)


def _document_problems(document: Any) -> list[Problem]:
    if not isinstance(document, dict):
        what = "nothing" if document is None else type(document).__name__
        return [Problem("", f"is {what}, not an object", f"write kind: {KIND}", "document")]
    if problems := list(plain.faults(document)):
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


def _read(document: Manifest) -> ImageNetJob:
    """Parse a manifest as strictly as the API server, without its status."""
    cleaned = {name: value for name, value in document.items() if name != "status"}
    text = json.dumps(_without_nulls(cleaned, ()))
    return ImageNetJob.model_validate_json(text, strict=True, by_alias=True, by_name=False)


def _without_nulls(value: Any, location: tuple[str | int, ...]) -> Any:
    """Drop null fields, as the API server does for fields that are not nullable.

    Integers written as 8.0 become 8, as in the API server. Free-form objects stay unchanged.
    """
    node = hints.node_at(location) or {}
    if isinstance(value, dict) and "properties" in node:
        known = node["properties"]
        return {
            name: _without_nulls(child, (*location, name)) if name in known else child
            for name, child in value.items()
            if child is not None or name not in known
        }
    if isinstance(value, list) and "items" in node:
        return [_without_nulls(child, (*location, index)) for index, child in enumerate(value)]
    if isinstance(value, float) and node.get("type") == "integer" and value.is_integer():
        return int(value)
    return value


def _broken_rules(model: Model, path: str) -> Iterator[Problem]:
    for rule in model.rules:
        if not rule.holds(model):
            message, hint = rule.explain(model) if rule.explain else (rule.message, rule.hint)
            yield Problem(".".join(filter(None, (path, rule.field))), message, hint)
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        place = ".".join(filter(None, (path, field.alias or name)))
        for suffix, child in _models(value):
            yield from _broken_rules(child, place + suffix)


def _models(value: Any) -> Iterator[tuple[str, Model]]:
    if isinstance(value, Model):
        yield "", value
    elif isinstance(value, tuple):
        for index, child in enumerate(value):
            if isinstance(child, Model):
                yield f"[{index}]", child


_Wording = Callable[[ErrorDetails], tuple[str, str | None]]


def _type(words: str) -> _Wording:
    return lambda error: (
        f"must be {words}, not {_shown(error['input'])}",
        hints.for_type(error["loc"], error["input"]),
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
    "missing": lambda error: ("is required", hints.for_missing(error["loc"])),
    "extra_forbidden": lambda error: ("unknown field", hints.for_unknown(error["loc"])),
    "literal_error": lambda error: (
        f"{_shown(error['input'])} is not possible",
        hints.for_choice(error["loc"], error["input"]),
    ),
    "string_pattern_mismatch": lambda error: (
        f"{_shown(error['input'])} is malformed",
        hints.for_pattern(error["ctx"]["pattern"]),
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


def _is_echo(error: ErrorDetails) -> bool:
    """Whether a list counts as too short only because one of its items is invalid."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def problem(error: ErrorDetails) -> Problem:
    """Return an error of a model in the API server's words."""
    wording = _WORDINGS.get(error["type"])
    message, hint = wording(error) if wording else (error["msg"].lower(), None)
    return Problem(hints.path_of(error["loc"]), message, hint)


def _shown(value: Any) -> str:
    """Return a value as in a manifest, shortened if it is long."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"

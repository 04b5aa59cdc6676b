"""Generates docs/reference.md: every field of the resource, from the models.

`cli.generate` writes it beside the CRD. Each object has a table, in the order of the manifest,
followed by its rules between fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

from imagenet_operator.api import crd, schema
from imagenet_operator.api.base import Model
from imagenet_operator.api.compatibility import COMBINATIONS
from imagenet_operator.api.fields import FORMS
from imagenet_operator.api.job import GROUP, KIND, VERSION, ImageNetJob, ImageNetJobSpec
from imagenet_operator.api.options import OPERATOR_OPTIONS
from imagenet_operator.api.schema import Schema
from imagenet_operator.api.status import Status
from imagenet_spec.frameworks import FRAMEWORKS

_HEAD = f"""\
# {KIND}, {GROUP}/{VERSION}

<!-- Written by `make generate` from operator/imagenet_operator/api; change it there. -->

The API server checks unknown fields, then types and constraints of each field, then rules between
fields. The operator then checks what the CRD cannot, such as the contents of pod templates.
`imagenetctl validate FILE` makes all of these checks without a cluster.

`metadata.name` {{name_rule}}. In a new job, {{others}}.

Short name `{{short_name}}`; `kubectl get {{short_name}}` shows {{columns}}.
"""


def render() -> str:
    """Return the page."""
    names = crd.definition()["spec"]["names"]
    of_name, others = (
        [rule.message for rule in ImageNetJob.rules if (rule.field == "metadata.name") is wanted]
        for wanted in (True, False)
    )
    columns = ", ".join(column["name"] for column in crd.COLUMNS if "priority" not in column)
    head = _HEAD.format(
        name_rule="; it ".join(of_name),
        others="; ".join(others),
        short_name=names["shortNames"][0],
        columns=columns,
    )
    parts = [
        head,
        *_sections(ImageNetJobSpec, "spec", crd.root_schema()["properties"]["spec"]),
        _combinations(),
        _immutability(),
        _options(),
        *_sections(Status, "status", crd.root_schema()["properties"]["status"]),
    ]
    return "\n".join(parts)


def _sections(model: type[Model], path: str, node: Schema) -> Iterator[str]:
    """Yield the section of a model, then those of the models below it."""
    description = " ".join((model.__doc__ or "").split()).replace("``", "`")
    lines = [f"## {path}", "", description, ""]
    lines += ["| field | type | default | constraint | |", "|---|---|---|---|---|"]
    hints = get_type_hints(model, include_extras=True)
    below: list[tuple[type[Model], str, Schema]] = []
    for name, field in model.model_fields.items():
        alias = field.alias or name
        child = node["properties"][alias]
        shown = {**child, "default": field.default} if schema.is_default_when_read(field) else child
        lines.append(_row(alias, shown, field.is_required(), schema.unit(hints[name])))
        if inner := _model_in(hints[name]):
            place = f"{path}.{alias}"
            if child["type"] == "array":
                place, child = f"{place}[]", child["items"]
            elif "additionalProperties" in child:
                place, child = f"{place}.*", child["additionalProperties"]
            below.append((inner, place, child))
    if model.rules:
        lines.append("")
    for rule in model.rules:
        lines.append(f"- {f'`{rule.field}`: ' if rule.field else ''}{rule.message}.")
    yield "\n".join([*lines, ""])
    for inner, place, child in below:
        yield from _sections(inner, place, child)


def _row(name: str, node: Schema, required: bool, unit: str | None) -> str:
    text = node["description"]
    if unit:
        text = text.removesuffix(f" Unit: {unit}.")
    default, value = "", node.get("default")
    if required:
        default = "required"
    elif value is not None and not isinstance(value, dict):
        # An object's default is that of its fields, which have their own rows.
        default = f"`{str(value).lower() if isinstance(value, bool) else value}`"
    cells = (f"`{name}`", _type(node), default, _constraint(node, unit), text)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _type(node: Schema) -> str:
    kind: str = node["type"]
    if kind == "array":
        return f"list of {_type(node['items'])}"
    if "additionalProperties" in node:
        return f"map to {_type(node['additionalProperties'])}"
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return "PodTemplateSpec"
    return "time" if node.get("format") == "date-time" else kind


def _constraint(node: Schema, unit: str | None) -> str:
    inner = node["items"] if node["type"] == "array" else node
    parts = [", ".join(f"`{choice}`" for choice in inner["enum"])] if "enum" in inner else []
    least, most = inner.get("minimum"), inner.get("maximum")
    words = "above" if inner.get("exclusiveMinimum") else "≥"
    bounds = [f"{words} {least}"] if least is not None else []
    if most is not None and most < schema.INT32_MAXIMUM:
        bounds.append(f"≤ {most}")
    parts += [", ".join(bounds), _size(node)]
    if pattern := inner.get("pattern"):
        parts.append(FORMS[pattern])
    if unit:
        parts.append(unit)
    return "; ".join(filter(None, parts))


def _size(node: Schema) -> str:
    things = {"array": "Items", "string": "Length", "object": "Properties"}.get(node["type"], "")
    least, most = node.get(f"min{things}"), node.get(f"max{things}")
    if not most:
        return ""
    words = {"Items": "items", "Length": "characters", "Properties": "entries"}[things]
    return f"{most} {words}" if least == most else f"at most {most} {words}"


def _model_in(hint: Any) -> type[Model] | None:
    """Return the model in a type, also in Optional, lists and maps."""
    if isinstance(hint, type) and issubclass(hint, Model):
        return hint
    if get_origin(hint) is None:
        return None
    return next(filter(None, map(_model_in, get_args(hint))), None)


def _combinations() -> str:
    lines = ["## Possible combinations", "", "| framework | format | strategy |", "|---|---|---|"]
    lines += [f"| {' | '.join(f'`{value}`' for value in row)} |" for row in COMBINATIONS]
    lines += ["", "Compute capabilities of the GPUs that the published images run on:", ""]
    lines += ["| framework | compute capability |", "|---|---|"]
    lines += [f"| `{name}` | {framework.gpu_code} |" for name, framework in FRAMEWORKS.items()]
    return "\n".join([*lines, ""])


def _immutability() -> str:
    by_message: dict[str, list[str]] = {}
    for rule in ImageNetJob.transition_rules:
        paths = by_message.setdefault(rule.message, [])
        if rule.field not in paths:
            paths.append(rule.field)
    lines = ["## Changes of a started job", ""]
    lines += [
        f"- {', '.join(f'`{path}`' for path in paths)}: {message}."
        for message, paths in by_message.items()
    ]
    lines += [
        "",
        "`spec.runPolicy` may always change. A job is suspended once its condition",
    ]
    lines += ["Suspended is True: then it has no pods.", ""]
    return "\n".join(lines)


def _options() -> str:
    lines = ["## Options that `extraArgs` may not repeat", ""]
    lines += ["| option of imagenet-train | set by |", "|---|---|"]
    lines += [f"| `{option}` | `{field}` |" for option, field in OPERATOR_OPTIONS.items()]
    return "\n".join([*lines, ""])

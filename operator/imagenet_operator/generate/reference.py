"""Generates docs/reference: every field of the resource, from the models.

`files` writes the pages beside the CRD, a page for each part of the manifest. Each object has a
table, in the order of the manifest, followed by its rules between fields. The type of a field that
is an object links to the object's table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

from imagenet_operator.generate import crd
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.resource import schema
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.compatibility import COMBINATIONS
from imagenet_spec.resource.extra_arguments import OPERATOR_OPTIONS
from imagenet_spec.resource.fields import FORMS, INT32_MAXIMUM
from imagenet_spec.resource.job import (
    GROUP,
    KIND,
    VERSION,
    ImageNetJob,
    ImageNetJobSpec,
    root_schema,
)
from imagenet_spec.resource.schema import Schema
from imagenet_spec.resource.status import Status

_INDEX, _EXTRA_ARGUMENTS = "README.md", "extra-arguments.md"
# The page of each part. An object below one is on the page of the nearest part above it.
_PAGES = {
    "spec": _INDEX,
    "spec.dataset": "dataset.md",
    "spec.dataset.source": "source.md",
    "spec.training": "training.md",
    "spec.runPolicy": "run-policy.md",
    "status": "status.md",
}
_NOTICE = "<!-- Written by `make generate` from spec/imagenet_spec/resource; change it there. -->"

_HEAD = f"""\
# {KIND}, {GROUP}/{VERSION}

{_NOTICE}

The API server checks unknown fields, then types and constraints of each field, then rules between
fields. The operator then checks what the CRD cannot, such as the contents of pod templates.
`imagenetctl validate FILE` makes all of these checks without a cluster.

`metadata.name` {{name_rule}}. In a new job, {{others}}.

Short name `{{short_name}}`; `kubectl get {{short_name}}` shows {{columns}}.

| Page | Content |
|---|---|
{{contents}}
"""


def render() -> dict[str, str]:
    """Return the pages by their file names, the index first."""
    names = crd.definition()["spec"]["names"]
    of_name, others = (
        [
            rule.message
            for rule in ImageNetJob.rules
            if not rule.is_of_updates and (rule.field == "metadata.name") is wanted
        ]
        for wanted in (True, False)
    )
    columns = ", ".join(column["name"] for column in crd.COLUMNS if "priority" not in column)
    pages: dict[str, list[str]] = {}
    contents = []
    nodes = root_schema(has_descriptions=True)["properties"]
    for model, root in ((ImageNetJobSpec, "spec"), (Status, "status")):
        for path, description, section in _sections(model, root, nodes[root]):
            page = _page(path)
            if page not in pages and page != _INDEX:
                section = f"# {path}\n\n{_NOTICE}\n{section}"
                contents.append(f"| [{path}]({page}) | {description} |")
            else:
                section = f"## {path}\n{section}"
            pages.setdefault(page, []).append(section)
    title, options = _options()
    contents.append(f"| [extraArgs]({_EXTRA_ARGUMENTS}) | {title} |")
    head = _HEAD.format(
        name_rule="; it ".join(of_name),
        others="; ".join(others),
        short_name=names["shortNames"][0],
        columns=columns,
        contents="\n".join(contents),
    )
    index = [head, *pages.pop(_INDEX), _combinations(), _immutability()]
    pages = {_INDEX: index, **pages, _EXTRA_ARGUMENTS: [f"# {title}\n\n{_NOTICE}\n\n{options}"]}
    return {name: "\n".join(sections) for name, sections in pages.items()}


def _page(path: str) -> str:
    above = [part for part in _PAGES if f"{path}.".startswith(f"{part}.")]
    return _PAGES[max(above, key=len)]


def _sections(model: type[Model], path: str, node: Schema) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the description and the section of a model and of those below it."""
    description = " ".join((model.__doc__ or "").split()).replace("``", "`")
    lines = ["", description]
    if model.model_fields:
        lines += ["", "| field | type | default | constraint | meaning |", "|---|---|---|---|---|"]
    hints = get_type_hints(model, include_extras=True)
    below: list[tuple[type[Model], str, Schema]] = []
    for name, field in model.model_fields.items():
        alias = field.alias or name
        child = node["properties"][alias]
        shown = {**child, "default": field.default} if schema.is_default_when_read(field) else child
        kind = _type(child)
        if inner := _model_in(hints[name]):
            place = f"{path}.{alias}"
            if child["type"] == "array":
                place, child = f"{place}[]", child["items"]
            elif "additionalProperties" in child:
                place, child = f"{place}.*", child["additionalProperties"]
            below.append((inner, place, child))
            page = "" if _page(place) == _page(path) else _page(place)
            anchor = re.sub(r"\W", "", place.lower())
            kind = kind.replace("object", f"[object]({page}#{anchor})")
        unit = schema.unit(hints[name])
        lines.append(_row(alias, kind, shown, field.is_required(), unit))
    if model.rules:
        lines.append("")
    for rule in model.rules:
        lines.append(f"- {f'`{rule.field}`: ' if rule.field else ''}{rule.message}.")
    yield path, description, "\n".join([*lines, ""])
    for inner, place, child in below:
        yield from _sections(inner, place, child)


def _row(name: str, kind: str, node: Schema, required: bool, unit: str | None) -> str:
    text = node["description"]
    if unit:
        text = text.removesuffix(f" Unit: {unit}.")
    default, value = "", node.get("default")
    if required:
        default = "required"
    elif value is not None and not isinstance(value, dict):
        # An object's default is that of its fields, which have their own rows.
        default = f"`{str(value).lower() if isinstance(value, bool) else value}`"
    cells = (f"`{name}`", kind, default, _constraint(node, unit), text)
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
    if most is not None and most < INT32_MAXIMUM:
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
    for rule in filter(lambda rule: rule.is_of_updates, ImageNetJob.rules):
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


def _options() -> tuple[str, str]:
    lines = ["| option of imagenet-train | set by |", "|---|---|"]
    lines += [f"| `{option}` | `{field}` |" for option, field in OPERATOR_OPTIONS.items()]
    return "Options that `extraArgs` may not repeat", "\n".join([*lines, ""])

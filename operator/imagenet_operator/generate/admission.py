"""The ValidatingAdmissionPolicy of ImageNetJobs, generated from the models.

Creating a job makes the operator create pods, and pods read the Secrets that they name. The policy
asks whether the requester may do both. `files` writes it into the chart, which adds its name
and its binding. docs/security.md says what it asks and what not.

The API server limits the cost of an evaluation to 10,000,000 in all and to 1,000,000 for each
expression, and an authorization check costs 350,000. So each expression makes one check, and the
Secrets are taken one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, get_args, get_origin, get_type_hints

from imagenet_spec.resource.base import Manifest, Model
from imagenet_spec.resource.fields import NAMES_SECRET
from imagenet_spec.resource.job import GROUP, KIND, PLURAL, VERSION, ImageNetJobSpec
from imagenet_spec.resource.schema import unwrapped

MOST_SECRETS: Final = 16
"""Secrets that are asked about by name; a job with more needs the right to get all."""

_SECRETS: Final = "authorizer.group('').resource('secrets').namespace(request.namespace)"
_REQUESTER: Final = "request.userInfo.username"


@dataclass(frozen=True)
class Places:
    """Where a job's spec has pod templates, and names Secrets outside of them.

    `lists` are the paths of lists whose items have the name of a Secret as `name`.
    """

    templates: tuple[str, ...]
    secrets: tuple[str, ...]
    lists: tuple[str, ...]


def places(spec: type[Model] = ImageNetJobSpec) -> Places:
    """Return where the model of a spec has templates and Secrets.

    Raises:
        TypeError: A list has items that the policy could not read.
    """
    found = list(_places(spec, "spec"))

    def of(kind: str) -> tuple[str, ...]:
        return tuple(path for of_kind, path in found if of_kind == kind)

    return Places(of("template"), of("secret"), of("list"))


def policy(spec: type[Model] = ImageNetJobSpec) -> Manifest:
    """Return the spec of the policy for the model of a job's spec."""
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [GROUP],
                    "apiVersions": [VERSION],
                    "operations": ["CREATE", "UPDATE"],
                    # Without subresources: the operator writes the status.
                    "resources": [PLURAL],
                }
            ]
        },
        # Kubernetes' own controllers change the finalizers of a job that is deleted.
        "matchConditions": [
            {
                "name": "the-spec-is-new",
                "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
            }
        ],
        "variables": [
            {"name": name, "expression": text} for name, text in _variables(places(spec))
        ],
        "validations": [
            {"expression": expression, "messageExpression": message, "reason": "Forbidden"}
            for expression, message in _validations()
        ],
    }


def _places(model: type[Model], path: str) -> Iterator[tuple[str, str]]:
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        inner, marks = unwrapped(hints[name])
        place = f"{path}.{field.alias or name}"
        if name == "template":
            yield "template", place
        elif NAMES_SECRET in marks:
            yield "secret", place
        elif get_origin(inner) is tuple:
            item, _ = unwrapped(get_args(inner)[0])
            in_items = list(_places(item, "")) if _is_model(item) else []
            if in_items not in ([], [("secret", ".name")]):
                raise TypeError(f"{place}: the admission policy reads only names of Secrets here")
            yield from (("list", place) for _ in in_items)
        elif _is_model(inner):
            yield from _places(inner, place)


def _is_model(hint: Any) -> TypeGuard[type[Model]]:
    return isinstance(hint, type) and issubclass(hint, Model)


def _variables(known: Places) -> Iterator[tuple[str, str]]:
    specs = [
        f"({_has(path)} && {_is(f'object.{path}', 'map')} ? [object.{path}] : [])"
        for path in (f"{template}.spec" for template in known.templates)
    ]
    yield "podSpecs", " + ".join(specs)
    direct = [f"({_has(path)} ? [object.{path}] : [])" for path in known.secrets]
    listed = [f"({_has(path)} ? object.{path}.map(item, item.name) : [])" for path in known.lists]
    # CEL has no list of all items of lists; a name has no slash, so names are joined and split.
    yield "ofTemplates", f"variables.podSpecs.map(spec, {_of_spec('spec')}).join('/')"
    texts = [f"{names}.map(name, string(name)).join('/')" for names in (*direct, *listed)]
    all_names = _joined("variables.ofTemplates", *texts)
    yield "secrets0", f"{all_names}.split('/').filter(name, name != '')"
    for index in range(MOST_SECRETS):
        name = f"variables.secrets{index}"
        yield f"secrets{index + 1}", f"{name}.filter(name, name != {name}[0])"
    yield "mayGetEverySecret", f"{_SECRETS}.check('get').allowed()"


def _validations() -> Iterator[tuple[str, str]]:
    pods = "authorizer.group('').resource('pods').namespace(request.namespace)"
    yield (
        f"{pods}.check('create').allowed()",
        f"{_REQUESTER} + ' may not create pods in the namespace ' + request.namespace"
        f" + ', as an {KIND} does; ask for a role with the verb create on pods'",
    )
    for index in range(MOST_SECRETS):
        secrets = f"variables.secrets{index}"
        yield (
            f"{secrets}.size() == 0 || variables.mayGetEverySecret"
            f" || {_SECRETS}.name({secrets}[0]).check('get').allowed()",
            # Evaluated even if the expression is true.
            f"{secrets}.size() == 0 ? '' : {_REQUESTER} + ' may not get the Secret '"
            f" + {secrets}[0] + ' in the namespace ' + request.namespace"
            " + ', which the job names; ask for a role with the verb get on it'",
        )
    yield (
        f"variables.secrets{MOST_SECRETS}.size() == 0 || variables.mayGetEverySecret",
        f"'the job names more than {MOST_SECRETS} Secrets, and ' + {_REQUESTER}"
        " + ' may not get all Secrets in the namespace ' + request.namespace"
        " + '; name fewer, or ask for a role with the verb get on secrets'",
    )


def _has(path: str) -> str:
    """Return whether a field of the job is there, whose parents may be absent."""
    steps = path.split(".")
    return " && ".join(
        f"has(object.{'.'.join(steps[:count])})" for count in range(2, len(steps) + 1)
    )


def _of_spec(spec: str) -> str:
    """Return the names of the Secrets in a pod's spec, which may have any shape."""
    projected = _list("volume.projected", "sources")
    sources = f"({_object('volume', 'projected')} ? {projected} : [])"
    of_volume = _joined(
        _text("volume", "secret", "secretName"),
        _text("volume", "csi", "nodePublishSecretRef", "name"),
        _each(sources, "source", _text("source", "secret", "name")),
    )
    of_variable = _text("variable", "valueFrom", "secretKeyRef", "name")
    of_container = _joined(
        _each(_list("container", "env"), "variable", of_variable),
        _each(_list("container", "envFrom"), "source", _text("source", "secretRef", "name")),
    )
    containers = f"({_list(spec, 'containers')} + {_list(spec, 'initContainers')})"
    return _joined(
        _each(_list(spec, "imagePullSecrets"), "item", _text("item", "name")),
        _each(_list(spec, "volumes"), "volume", of_volume),
        _each(containers, "container", of_container),
    )


def _joined(*texts: str) -> str:
    return f"[{', '.join(texts)}].join('/')"


def _each(items: str, name: str, text: str) -> str:
    """Return a text of each object of a list."""
    return f"{items}.map({name}, {_is(name, 'map')} ? {text} : '').join('/')"


def _list(parent: str, field: str) -> str:
    """Return a list in an object; empty for any other value."""
    value = f"{parent}.{field}"
    return f"(has({value}) && {_is(value, 'list')} ? {value} : [])"


def _text(parent: str, *fields: str) -> str:
    """Return a text at a path in an object; empty for any other value."""
    *parents, last = fields
    guards = []
    for field in parents:
        guards.append(_object(parent, field))
        parent = f"{parent}.{field}"
    value = f"{parent}.{last}"
    guards.append(f"has({value}) && {_is(value, 'string')}")
    return f"({' && '.join(guards)} ? string({value}) : '')"


def _object(parent: str, field: str) -> str:
    return f"has({parent}.{field}) && {_is(f'{parent}.{field}', 'map')}"


def _is(value: str, kind: str) -> str:
    return f"type({value}) == {kind}"

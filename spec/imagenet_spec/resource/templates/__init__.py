"""Validation of pod templates, which the schema does not check.

`validate` calls this last, on a job that the API server would accept. The builders call the same
function before a merge, because a stored job may not have been validated.

Template profiles name the fields that an operator's configuration refuses. `standard` admits what
the security floor leaves open. `strict` also refuses the fields by which a pod uses more of its
namespace or cluster than its job's own fields name: service accounts, Secrets, CSI drivers, nodes
and classes. docs/security.md lists both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from imagenet_spec.errors import Problem
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.job import ImageNetJob
from imagenet_spec.resource.templates import own_program
from imagenet_spec.resource.templates.conflicts import items
from imagenet_spec.resource.templates.own_program import OwnProgram
from imagenet_spec.resource.templates.owned_fields import owned_field_conflicts
from imagenet_spec.resource.templates.pod_validation import misspelled, wrong_types

TemplateProfile = Literal["standard", "strict"]

STANDARD: Final = "standard"

_ACCOUNT: Final = "remove it; pods have the namespace's default service account"
_REFUSED_IN_POD: Final = {
    "serviceAccountName": _ACCOUNT,
    "serviceAccount": _ACCOUNT,
    "imagePullSecrets": "write spec.training.imagePullSecrets",
    "nodeName": "write nodeSelector or affinity",
    "priorityClassName": "remove it; pods have the cluster's default priority",
    "runtimeClassName": "remove it; pods have the cluster's default runtime",
}
_REFUSED_IN_VOLUME: Final = {"secret": "write configMap or a claim", "csi": "write a claim"}
_REFUSED_IN_SOURCE: Final = {"secret": "write configMap"}
_REFUSED_IN_ENV_FROM: Final = {"secretRef": "write configMapRef"}
_REFUSED_IN_VALUE_FROM: Final = {"secretKeyRef": "write configMapKeyRef, or value"}

WORKERS = "spec.training.workers.template"
"""The only template that may run another program."""


def operator_problems(job: ImageNetJob, profile: TemplateProfile = STANDARD) -> list[Problem]:
    """Return every reason why an operator with a template profile would reject a stored job."""
    programs = {WORKERS: own_program.of_workers(job.spec.training)}
    return own_program.problems(job.spec.training) + [
        problem
        for path, template in template_fields(job.spec, "spec")
        for program in [programs.get(path, OwnProgram.NEVER)]
        for problem in (
            *misspelled(template, path),
            *template_problems(template, path, program, profile),
        )
    ]


def misspelled_fields(job: ImageNetJob) -> list[Problem]:
    """Return the fields of all templates that `manifests.template` leaves out of the pods.

    `operator_problems` refuses them in a new job. A job that has started keeps them: an earlier
    version admitted it.
    """
    return [
        problem
        for path, template in template_fields(job.spec, "spec")
        for problem in misspelled(template, path)
    ]


def template_problems(
    template: Mapping[str, Any],
    path: str,
    program: OwnProgram = OwnProgram.NEVER,
    profile: TemplateProfile = STANDARD,
) -> list[Problem]:
    """Return every reason why a template is invalid, or sets a field that it may not set.

    `path` is its field, such as ``spec.training.workers.template``.
    """
    # Types first: only a field of the right type has its value checked.
    return list(wrong_types(template, path)) or [
        *owned_field_conflicts(template, path, program),
        *(_refused_by_strict(template, path) if profile != STANDARD else ()),
    ]


def template_fields(model: Model, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every template in a model with its path, in any strategy."""
    for name, field in type(model).model_fields.items():
        value, place = getattr(model, name), f"{path}.{field.alias or name}"
        if name == "template" and value is not None:
            yield place, value
        elif isinstance(value, Model):
            yield from template_fields(value, place)


def _refused_by_strict(template: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield every field that the profile strict refuses in a template of the right types."""
    spec = template.get("spec") or {}
    path = f"{path}.spec"
    yield from _refused(spec, _REFUSED_IN_POD, path)
    for _, place, volume in items(spec, "volumes", path):
        yield from _refused(volume, _REFUSED_IN_VOLUME, place)
        projected = volume.get("projected") or {}
        for _, source_place, source in items(projected, "sources", f"{place}.projected"):
            yield from _refused(source, _REFUSED_IN_SOURCE, source_place)
    for field in ("containers", "initContainers"):
        for _, container_place, container in items(spec, field, path):
            for _, place, variable in items(container, "env", container_place):
                value = variable.get("valueFrom") or {}
                yield from _refused(value, _REFUSED_IN_VALUE_FROM, f"{place}.valueFrom")
            for _, place, source in items(container, "envFrom", container_place):
                yield from _refused(source, _REFUSED_IN_ENV_FROM, place)


def _refused(
    mapping: Mapping[str, Any], remedies: Mapping[str, str], path: str
) -> Iterator[Problem]:
    """Yield the fields of a table that are set; null and empty values set nothing."""
    for field, remedy in remedies.items():
        if mapping.get(field) not in (None, "", []):
            what = "is refused by the operator's template profile, strict"
            yield Problem(f"{path}.{field}", what, remedy, "operator")

"""Template profiles: the fields that an operator's configuration refuses in templates.

The profile `standard` admits what the security floor leaves open. `strict` also refuses the fields
by which a pod uses more of its namespace or cluster than its job's own fields name: service
accounts, Secrets, CSI drivers, nodes and classes. docs/security.md lists both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from imagenet_operator.api.templates.conflicts import items
from imagenet_operator.errors import Problem

TemplateProfile = Literal["standard", "strict"]

STANDARD: Final = "standard"

_ACCOUNT: Final = "remove it; pods have the namespace's default service account"
_POD: Final = {
    "serviceAccountName": _ACCOUNT,
    "serviceAccount": _ACCOUNT,
    "imagePullSecrets": "write spec.training.imagePullSecrets",
    "nodeName": "write nodeSelector or affinity",
    "priorityClassName": "remove it; pods have the cluster's default priority",
    "runtimeClassName": "remove it; pods have the cluster's default runtime",
}
_VOLUME: Final = {"secret": "write configMap or a claim", "csi": "write a claim"}
_PROJECTED: Final = {"secret": "write configMap"}
_ENV_FROM: Final = {"secretRef": "write configMapRef"}
_VALUE_FROM: Final = {"secretKeyRef": "write configMapKeyRef, or value"}


def problems(template: Mapping[str, Any], path: str, profile: TemplateProfile) -> Iterator[Problem]:
    """Yield every field of a template that a profile refuses.

    Args:
        template: A PodTemplateSpec whose fields have the right types.
        path: Its field, such as ``spec.training.workers.template``.
        profile: The operator's.
    """
    spec = template.get("spec")
    if profile == STANDARD or not isinstance(spec, Mapping):
        return
    path = f"{path}.spec"
    yield from _refused(spec, _POD, path)
    for _, place, volume in items(spec, "volumes", path):
        yield from _refused(volume, _VOLUME, place)
        projected = volume.get("projected") or {}
        for _, source_place, source in items(projected, "sources", f"{place}.projected"):
            yield from _refused(source, _PROJECTED, source_place)
    for field in ("containers", "initContainers"):
        for _, place, container in items(spec, field, path):
            yield from _of_environment(container, place)


def _of_environment(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for _, place, variable in items(container, "env", path):
        yield from _refused(variable.get("valueFrom") or {}, _VALUE_FROM, f"{place}.valueFrom")
    for _, place, source in items(container, "envFrom", path):
        yield from _refused(source, _ENV_FROM, place)


def _refused(
    mapping: Mapping[str, Any], remedies: Mapping[str, str], path: str
) -> Iterator[Problem]:
    """Yield the fields of a table that are set; null and empty values set nothing."""
    for field, remedy in remedies.items():
        if mapping.get(field) not in (None, "", []):
            what = "is refused by the operator's template profile, strict"
            yield Problem(f"{path}.{field}", what, remedy, "operator")

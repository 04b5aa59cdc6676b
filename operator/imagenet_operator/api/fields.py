"""The types of several fields: bounded texts and numbers, paths, times, templates.

Every text and list is bounded, because the API server estimates the cost of a rule from the bounds
and rejects a CRD whose rules could cost too much.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator, AwareDatetime, Field

from imagenet_operator.api.base import Rule, Unit
from imagenet_operator.api.names import REPLICAS_MAXIMUM
from imagenet_operator.api.quantities import POSITIVE_BYTES

INT32_MAXIMUM = 2**31 - 1
COUNT_MAXIMUM = 2**53
"""The largest integer that a double holds exactly, as many JSON parsers need."""

Text = Annotated[str, MinLen(1), MaxLen(1024)]
Message = Annotated[str, MaxLen(32768)]
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

ObjectName = Annotated[str, MaxLen(253), Field(pattern=_SUBDOMAIN)]
"""A DNS-1123 subdomain: the name of a claim, a Secret."""

_SUBDOMAIN_OR_NONE = f"^$|{_SUBDOMAIN}"

StorageClassName = Annotated[str, MaxLen(253), Field(pattern=_SUBDOMAIN_OR_NONE)]
"""A storage class, or "" for a claim that is bound to an existing volume."""

_RELATIVE = r"^[^/$\x00-\x1f][^$\x00-\x1f]*$"

RelativePath = Annotated[str, MinLen(1), MaxLen(1024), Field(pattern=_RELATIVE)]
"""A path below a volume's root, without $, which Kubernetes expands."""

_DOMAIN_PATH = (
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[-A-Za-z0-9._~/]+$"
)

Manager = Annotated[str, MaxLen(63), Field(pattern=_DOMAIN_PATH)]
"""A domain and a path, as in the ``managedBy`` of a Kubernetes Job."""

FORMS = {
    _SUBDOMAIN: "a name of a-z, 0-9, - and dots",
    _SUBDOMAIN_OR_NONE: 'a name of a-z, 0-9, - and dots, or ""',
    _RELATIVE: "a path from the volume's root, without a leading / and without $",
    _DOMAIN_PATH: "a domain and a path, such as kueue.x-k8s.io/multikueue",
    POSITIVE_BYTES: "a quantity above zero, such as 200Gi",
}
"""Each pattern in words."""

PositiveInt = Annotated[int, Ge(1), Le(INT32_MAXIMUM)]
Count = Annotated[int, Ge(0), Le(INT32_MAXIMUM)]
LongCount = Annotated[int, Ge(0), Le(COUNT_MAXIMUM)]
Replicas = Annotated[int, Ge(1), Le(REPLICAS_MAXIMUM)]
Seconds = Annotated[int, Ge(1), Le(INT32_MAXIMUM), Unit("seconds")]
Fraction = Annotated[float, Ge(0), Le(1)]
Speed = Annotated[float, Ge(0), Unit("images per second")]

ImageShape = Annotated[
    tuple[Annotated[int, Ge(1), Le(8192)], ...],
    MinLen(3),
    MaxLen(3),
    Unit("channels, height, width in pixels"),
]

Template = dict[str, Any]
"""A PodTemplateSpec, which the schema preserves (its own schema would be too large for kubectl
apply). It is merged into the operator's pod as ``kubectl patch --type=strategic`` does."""


def _whole_seconds(moment: datetime) -> datetime:
    """Truncate a time as Kubernetes does, so that a status read back equals the one written."""
    return moment.astimezone(UTC).replace(microsecond=0)


Time = Annotated[AwareDatetime, AfterValidator(_whole_seconds)]

SPLIT_DEFAULT = 50
"""The default number of validation images of each class, as in MXNet's tutorial."""


def stays_below(field: str) -> Rule:
    """Return the rule that the path in `field` does not leave its volume."""
    attribute = field

    def holds(model: Any) -> bool:
        value = model.to_manifest().get(attribute)
        return value is None or ".." not in value.split("/")

    return Rule(
        cel=f"!has(self.{field}) || !self.{field}.matches('(^|/)[.][.](/|$)')",
        message="must not contain ..",
        field=field,
        holds=holds,
        hint="write the path from the volume's root",
    )

"""The types of several fields: names, bounded texts and numbers, paths, times, templates.

Every text and list is bounded. The API server estimates the cost of a rule from the bounds, and
rejects a CRD whose rules could cost too much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator, AwareDatetime, Field

from imagenet_spec.names import CHECKSUM, ENDPOINT, SERVER
from imagenet_spec.resource.base import Unit
from imagenet_spec.resource.quantities import POSITIVE_BYTES
from imagenet_spec.rules import Rule

INT32_MAXIMUM = 2**31 - 1
COUNT_MAXIMUM = 2**53
"""The largest integer that a double holds exactly, as many JSON parsers need."""

LABEL_MAXIMUM = 63
"""The longest DNS-1035 label (RFC 1035, section 2.3.4): pod host names, Services, labels."""

DNS_LABEL = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""A DNS-1035 label: a Service's name may not start with a digit."""

ATTEMPT_DIGITS = 8
"""The largest number of an attempt: one a second for three years."""

REPLICAS_MAXIMUM = 10_000
"""The most members of a role, so that an index has up to four digits."""

_LAST_ATTEMPT = 10**ATTEMPT_DIGITS - 1
_CHILD_SUFFIXES = (
    "-dataset",
    "-output",
    "-preparation",
    "-index",
    "-seal",
    # A pod of an Indexed Job is named by its completion index and five random characters.
    f"-pack-{10**5 - 1}-abcde",
    f"-r{_LAST_ATTEMPT}",
    f"-r{_LAST_ATTEMPT}-scheduler-0",
    f"-r{_LAST_ATTEMPT}-rendezvous-0",
    f"-r{_LAST_ATTEMPT}-server-{REPLICAS_MAXIMUM - 1}",
    f"-r{_LAST_ATTEMPT}-worker-{REPLICAS_MAXIMUM - 1}",
)

JOB_NAME_MAXIMUM = LABEL_MAXIMUM - max(map(len, _CHILD_SUFFIXES))
"""The longest name of a job whose longest child's name is still a label. The builders
(`manifests.names`) create these names; the limit is here, because the CRD contains it."""

Text = Annotated[str, MinLen(1), MaxLen(1024)]
Message = Annotated[str, MaxLen(32768)]
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

ObjectName = Annotated[str, MaxLen(253), Field(pattern=_SUBDOMAIN)]
"""A DNS-1123 subdomain: the name of a claim."""

NAMES_SECRET: Final = object()
"""Marks the name of a Secret: the admission policy asks whether the requester may read it."""

SecretName = Annotated[ObjectName, NAMES_SECRET]
"""The name of a Secret in the job's namespace."""

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

_FILE_NAME = r"^[A-Za-z0-9][-A-Za-z0-9._]*$"

FileName = Annotated[str, MaxLen(253), Field(pattern=_FILE_NAME)]
"""The name of a file, without folders."""

_SERVED_NAME = r"^[-A-Za-z0-9._~%]*(\{[0-9]{1,6}\.\.[0-9]{1,6}\})?[-A-Za-z0-9._~%]+$"

ServedName = Annotated[str, MaxLen(253), Field(pattern=_SERVED_NAME)]
"""The name of a file of a server, or the names of many."""

_SECRET_KEY = r"^[-._A-Za-z0-9]+$"

SecretKey = Annotated[str, MaxLen(253), Field(pattern=_SECRET_KEY)]
"""A key of a Secret."""

_CHECKSUM = f"^{CHECKSUM}$"

Checksum = Annotated[str, MaxLen(71), Field(pattern=_CHECKSUM)]
"""The checksum of a file, with its algorithm."""

_SHA256 = "^[0-9a-f]{64}$"

Sha256 = Annotated[str, MaxLen(64), Field(pattern=_SHA256)]
"""The hex SHA-256 of a file."""

BUCKET_NAME: Final = r"^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$"
"""The pattern of the name of a bucket."""

BucketName = Annotated[str, MaxLen(63), Field(pattern=BUCKET_NAME)]

_NETWORK_NAME = r"^[A-Za-z0-9][-A-Za-z0-9_./]*$"

NetworkName = Annotated[str, MaxLen(128), Field(pattern=_NETWORK_NAME)]

_LICENSE = r"^[^$\x00-\x1f]+$"

License = Annotated[str, MaxLen(200), Field(pattern=_LICENSE)]
"""One line without $, which Kubernetes expands."""

FORMS = {
    _SUBDOMAIN: "a name of a-z, 0-9, - and dots",
    _SUBDOMAIN_OR_NONE: 'a name of a-z, 0-9, - and dots, or ""',
    _RELATIVE: "a path from the volume's root, without a leading / and without $",
    _DOMAIN_PATH: "a domain and a path, such as kueue.x-k8s.io/multikueue",
    BUCKET_NAME: "a name of 3 to 63 of a-z, 0-9, - and .",
    _SERVED_NAME: "a percent-encoded name, or a range of names such as train-{000..127}.tar",
    _FILE_NAME: "a name of A-Z, a-z, 0-9, -, . and _, such as train.tar",
    _NETWORK_NAME: "a name that imagenetctl networks lists",
    _SECRET_KEY: "a key of A-Z, a-z, 0-9, -, . and _",
    _CHECKSUM: "sha256: or md5: and the hexadecimal digits",
    _SHA256: "64 hexadecimal digits",
    _LICENSE: "one line without $, such as CC BY 4.0",
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
Spent = Annotated[float, Ge(0), Unit("seconds")]

_Side = Annotated[int, Ge(1), Le(8192)]

ImageSide = Annotated[_Side, Unit("pixels")]

ImageShape = Annotated[
    tuple[_Side, ...],
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
    return Rule(
        cel=f"!has(self.{field}) || !self.{field}.matches('(^|/)[.][.](/|$)')",
        message="must not contain ..",
        field=field,
        hint="write the path from the volume's root",
    )


def all_stay_below(field: str) -> Rule:
    """Return the rule that no path in the list `field` leaves its volume."""
    return Rule(
        cel=f"!has(self.{field}) || !self.{field}.exists(k, k.matches('(^|/)[.][.](/|$)'))",
        message="must not contain ..",
        field=field,
        hint="write each path from the root",
    )


def all_differ(field: str) -> Rule:
    """Return the rule that no two texts in the list `field` are equal."""
    return Rule(
        cel=(
            f"!has(self.{field}) || "
            f"self.{field}.all(one, self.{field}.exists_one(other, other == one))"
        ),
        message="must not contain a name twice",
        field=field,
        hint="write each name once",
    )


def matches(field: str, pattern: str, *, message: str, hint: str, is_optional: bool = True) -> Rule:
    """Return the rule that the text in `field`, of one word, matches a regular expression."""
    absent = f"!has(self.{field}) || " if is_optional else ""
    return Rule(
        cel=f"{absent}self.{field}.matches('{pattern}')",
        message=message,
        field=field,
        hint=hint,
    )


def without_options_cel(flags: Iterable[str]) -> str:
    """Return the CEL expression that `extraArgs` has none of these options."""
    pattern = f"^--({'|'.join(flag.removeprefix('--') for flag in flags)})(=|$)"
    return f"!has(self.extraArgs) || !self.extraArgs.exists(text, text.matches('{pattern}'))"


def given_option(training: Any, flags: Collection[str]) -> str:
    """Return the first of these options in `extraArgs`."""
    options: Iterable[str] = (text.partition("=")[0] for text in training.extra_args)
    return next(option for option in options if option in flags)


ENDPOINT_RULE: Final = matches(
    "endpoint",
    ENDPOINT,
    message="must be an http or https URL without user, path and query",
    hint="write https://HOST",
)
"""The rule for a field `endpoint`: the address of a server without a path."""

URL_PATH: Final = "[-A-Za-z0-9._~%:/!&()*+,;=@]"
"""A character of a URL's path, as a pattern: without a query, and without $."""

URL_RULE: Final = matches(
    "url",
    f"^{SERVER}/{URL_PATH}+$",
    message="must be an http or https URL without user and query, percent-encoded",
    hint="write https://HOST/PATH; secretName names the Secret of a login, queryKey its key with "
    "the query",
    is_optional=False,
)
"""The rule for a field `url`: the address of a file or folder on a server."""

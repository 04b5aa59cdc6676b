"""Stored jobs, read tolerantly; `validate` reads new ones, strictly.

Another version of the operator or of the CRD may have written a stored job. What this version does
not accept is left out, or keeps its stored value. So the job can still be observed, suspended and
cleaned up. `carried` puts the parts of a status that were left out back into the
status that is written next.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from imagenet_spec.errors import Problem
from imagenet_spec.resource import member_groups, schema
from imagenet_spec.resource.base import Manifest, Model, copied
from imagenet_spec.resource.job import ImageNetJob, ImageNetJobSpec, ObjectMeta
from imagenet_spec.resource.status import MemberGroup, MemberStatus, Status
from imagenet_spec.validate import problem

_OF_ANOTHER_VERSION: Final = frozenset(
    {
        "extra_forbidden",
        "literal_error",
        "greater_than",
        "greater_than_equal",
        "less_than_equal",
        "string_pattern_mismatch",
        "string_too_short",
        "string_too_long",
        "too_short",
        "too_long",
    }
)
"""Errors that a newer version may not make: its fields, values and bounds are others. A value of
the wrong type, and a required field that is missing, are errors for every version."""

_REDUCED: Final = 512
"""UTF-8 bytes of a condition's message in a status that was refused for its size."""

_KEYS: Final = "x-kubernetes-list-map-keys"

Readable = TypeVar("Readable", bound=Model)


@dataclass(frozen=True)
class StoredJob:
    """A stored job, as far as this version can read it.

    Attributes:
        job: The job. Fields of its spec that are not accepted have their default, or the stored
            value if there is no default. Nothing may be built from such a spec.
        problems: The fields of its spec that are not accepted.
        is_of_another_version: Whether a newer version may accept them.
    """

    job: ImageNetJob
    problems: tuple[Problem, ...] = ()
    is_of_another_version: bool = False


def read(document: Manifest) -> StoredJob:
    """Return a job as the API server has stored it."""
    try:
        return StoredJob(_with_members(ImageNetJob.model_validate(document)))
    except ValidationError as error:
        found = [item for item in error.errors(include_url=False) if item["loc"][:1] == ("spec",)]
    job = ImageNetJob.model_construct(
        metadata=_readable(ObjectMeta, document["metadata"]),
        spec=_constructed(ImageNetJobSpec, document.get("spec")),
        status=_readable(Status, document.get("status")),
    )
    return StoredJob(
        _with_members(job),
        tuple(map(problem, found)),
        is_of_another_version=any(item["type"] in _OF_ANOTHER_VERSION for item in found),
    )


def carried(former: Any, status: Status) -> Manifest:
    """Return the JSON of a new status, with the parts of the stored one that cannot be read."""
    new = _with_groups(status).to_manifest()
    try:
        Status.model_validate(former)
    except ValidationError:
        merged: Manifest = _merged(
            former, _readable(Status, former).to_manifest(), new, _status_schema()
        )
        return merged
    return new


def reduced(status: Status) -> Status:
    """Return a status for an API server that refuses it for its size: its words are cut.

    The result of a worker stays, because success needs it.
    """
    short = [
        item.model_copy(update={"message": member_groups.tail(item.message, _REDUCED)})
        for item in status.conditions
    ]
    training = status.training
    if training is not None:
        without = [
            item if member_groups.is_result(item) else item.model_copy(update={"message": None})
            for item in training.members
        ]
        lean = member_groups.bounded(without, listed=0)
        training = training.model_copy(update={"members": lean})
    reduced_status = status.model_copy(update={"conditions": tuple(short), "training": training})
    return _with_groups(reduced_status, listed=0)


def read_known(model: type[Readable], text: str) -> Readable:
    """Return a model of a JSON text that may have further fields.

    Raises:
        ValidationError: The text is no JSON, or its known fields are invalid.
    """
    return model.model_validate_json(text, extra="ignore")


def _with_members(job: ImageNetJob) -> ImageNetJob:
    """Return a job with one entry for each member."""
    training = job.status.training
    if training is None or not training.member_groups:
        return job
    # An older operator, which does not know them, may have carried those of another attempt.
    groups = [item for item in training.member_groups if f"-r{training.attempt}-" in item.pods]
    members = member_groups.listed(training.members, groups)
    return job.model_copy(update={"status": _with_record(job.status, members, ())})


def _with_groups(status: Status, listed: int = member_groups.LISTED) -> Status:
    """Return a status with the members of a large attempt in groups."""
    training = status.training
    if training is None or training.member_groups or len(training.members) <= listed:
        return status
    return _with_record(status, *member_groups.grouped(training.members, listed))


def _with_record(
    status: Status, members: tuple[MemberStatus, ...], groups: tuple[MemberGroup, ...]
) -> Status:
    record = {"members": members, "member_groups": groups or None}
    assert status.training is not None
    return status.model_copy(update={"training": status.training.model_copy(update=record)})


def _readable(model: type[Readable], value: Any) -> Readable:
    """Return a model of the parts of a value that it accepts; all of its fields are optional."""
    value = copied(value) if isinstance(value, dict) else {}
    while True:
        try:
            return model.model_validate(value, extra="ignore")
        except ValidationError as error:
            # An object without a required field is left out as a whole.
            wrong = {
                item["loc"][:-1] if item["type"] == "missing" else item["loc"]
                for item in error.errors(include_url=False)
            }
        # The last items of a list first, so that the indices of others stay.
        for *parents, last in sorted(wrong, reverse=True):
            holder = value
            for step in parents:
                holder = holder[step]
            del holder[last]


def _constructed(model: type[Model], value: Any) -> Any:
    """Return a model that is not validated.

    A field that is not accepted has its default, or the parts of its model that are; a required one
    the stored value, if it is of the right type, an empty model or None.
    """
    given = value if isinstance(value, dict) else {}
    fields = {}
    for name, field in model.model_fields.items():
        stored = given.get(field.alias or name)
        types = (field.annotation, *get_args(field.annotation))
        inner = next((t for t in types if isinstance(t, type) and issubclass(t, Model)), None)
        errors: set[str] = set()
        if stored is not None:
            try:
                fields[name] = _adapter(model, name).validate_python(stored)
                continue
            except ValidationError as error:
                errors = {item["type"] for item in error.errors(include_url=False)}
        if inner is not None and isinstance(stored, dict):
            fields[name] = _constructed(inner, stored)
        elif not field.is_required():
            fields[name] = field.get_default(call_default_factory=True)
        elif errors and errors <= _OF_ANOTHER_VERSION:
            # A number beyond a bound is still a number.
            fields[name] = stored
        else:
            fields[name] = None if inner is None else _constructed(inner, {})
    return model.model_construct(**fields)


@cache
def _adapter(model: type[Model], name: str) -> TypeAdapter[Any]:
    return TypeAdapter(model.model_fields[name].rebuild_annotation())


@cache
def _status_schema() -> schema.Schema:
    return schema.of_model(Status, has_defaults=False)


def _merged(former: Any, understood: Any, new: Any, node: schema.Schema) -> Any:
    """Return the new value, with the parts of the former one that were not understood.

    `node` is the schema of all three.
    """
    if isinstance(former, dict) and isinstance(new, dict):
        known = understood if isinstance(understood, dict) else {}
        properties = node.get("properties", {})
        merged = dict(new)
        for name, value in former.items():
            if name not in known:
                merged.setdefault(name, value)
            elif name in new and name in properties:
                merged[name] = _merged(value, known[name], new[name], properties[name])
        return merged
    if isinstance(former, list) and isinstance(new, list) and _KEYS in node:
        (key,) = node[_KEYS]
        # The objects of each list by the field that identifies them.
        stored, known, written = (
            {item[key]: item for item in items if isinstance(item, dict) and key in item}
            for items in (former, understood, new)
        )
        each = {"properties": dict.fromkeys(stored, node["items"])}
        return list(_merged(stored, known, written, each).values())
    return new

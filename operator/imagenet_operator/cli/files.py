"""Manifests in files, which all commands read.

Validation covers the API server and the operator: `api.validate`, then a dry run that builds every
object. Problems are lines ``FILE: FIELD: what; what to write``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from imagenet_operator.api import ImageNetJob, Manifest, load, parse, validate
from imagenet_operator.api.job import ObjectMeta
from imagenet_operator.api.load import parse as parse_text
from imagenet_operator.api.templates import STANDARD, TemplateProfile
from imagenet_operator.errors import (
    ImageNetJobError,
    InvalidJob,
    InvalidTemplate,
    Problem,
    UnreadableManifest,
)
from imagenet_operator.manifests import preview

PLACEHOLDER_UID = "JOB-UID"
"""The placeholder for the UID of a job that is not on a cluster."""

_WRITTEN = frozenset({"name", "generate_name", "namespace", "labels", "annotations"})
"""The metadata fields that users write; an API server sets the others."""

GENERATED = "xxxxx"
"""The placeholder for the five characters that the API server appends to `generateName`."""


class Dumper(yaml.SafeDumper):
    """A dumper without aliases, which are hard to read in a manifest."""

    def ignore_aliases(self, data: Any) -> bool:
        """Repeat what occurs twice."""
        return True


def documents(file: str) -> list[Manifest]:
    """Return the documents of a file, or of the standard input for ``-``.

    Raises:
        UnreadableManifest: The file cannot be read or parsed.
    """
    if file != "-":
        return load(Path(file))
    try:
        return parse_text(sys.stdin.read(), "the standard input")
    except UnicodeDecodeError as error:
        raise UnreadableManifest("the standard input", "is not UTF-8 text") from error


def problems(document: Manifest, profile: TemplateProfile = STANDARD) -> list[Problem]:
    """Return every reason why a cluster with a template profile would reject a document."""
    if found := validate(document, profile=profile):
        return found
    try:
        preview.everything(as_stored(parse(document)))
    except InvalidTemplate as error:
        return [Problem(error.path, error.message, None, "operator")]
    except InvalidJob as error:
        return list(error.problems)
    return []


def lines(file: str, found: list[list[Problem]]) -> list[str]:
    """Return one line for each problem.

    Args:
        file: The file of the documents.
        found: The problems of each of its documents.
    """
    return [
        f"{place}: {problem}"
        for number, problems_ in enumerate(found, start=1)
        for place in [f"{file}: document {number}" if len(found) > 1 else file]
        for problem in problems_
    ]


def jobs(file: str) -> list[ImageNetJob]:
    """Return the jobs of a file.

    Raises:
        ImageNetJobError: The file cannot be read, or a document is invalid.
    """
    read = documents(file)
    if wrong := lines(file, [problems(document) for document in read]):
        raise ImageNetJobError("\n".join(wrong))
    return [parse(document) for document in read]


def as_written(job: ImageNetJob) -> ImageNetJob:
    """Return the job without the fields that an API server adds.

    A local job is independent of a job with the same name on a cluster, deletionTimestamp included.
    """
    metadata = job.metadata
    written = metadata.model_dump(include=set(_WRITTEN & metadata.model_fields_set))
    return job.model_copy(update={"metadata": ObjectMeta.model_validate(written)})


def as_stored(job: ImageNetJob) -> ImageNetJob:
    """Return the job with placeholders for the missing fields that a cluster would set."""
    metadata = job.metadata
    given = {
        "uid": metadata.uid or PLACEHOLDER_UID,
        "name": metadata.name or f"{metadata.generate_name}{GENERATED}",
    }
    return job.model_copy(update={"metadata": metadata.model_copy(update=given)})

"""Manifests in files, as all commands read them: the first step of `validate`, `run`, `render`.

The verdict is that of the API server and of the operator together: `api.validate`, then a dry
run that builds every object. What is wrong is said in lines ``FILE: FIELD: what; what to write``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from imagenet_operator.api import ImageNetJob, Manifest, load, parse, validate
from imagenet_operator.api.job import ObjectMeta
from imagenet_operator.api.load import parse as parse_text
from imagenet_operator.errors import (
    ImageNetJobError,
    InvalidJob,
    InvalidTemplate,
    Problem,
    UnreadableManifest,
)
from imagenet_operator.manifests import preview

PLACEHOLDER_UID = "JOB-UID"
"""Stands for the UID of a job that no cluster has seen."""

_WRITTEN = frozenset({"name", "generate_name", "namespace", "labels", "annotations"})
"""What users write of the metadata; the rest tells of the object that an API server keeps."""

GENERATED = "xxxxx"
"""The API server completes a `generateName` by five characters of its choice."""


def documents(file: str) -> list[Manifest]:
    """The documents of a file, or of the standard input for ``-``.

    Raises:
        UnreadableManifest: There are none that could be judged.
    """
    if file != "-":
        return load(Path(file))
    try:
        return parse_text(sys.stdin.read(), "the standard input")
    except UnicodeDecodeError as error:
        raise UnreadableManifest("the standard input", "is not UTF-8 text") from error


def problems(document: Manifest) -> list[Problem]:
    """Every reason why a cluster would not run a document; none if it would."""
    if found := validate(document):
        return found
    try:
        preview.everything(as_stored(parse(document)))
    except InvalidTemplate as error:
        return [Problem(error.path, error.message, None, "operator")]
    except InvalidJob as error:
        return list(error.problems)
    return []


def lines(file: str, found: list[list[Problem]]) -> list[str]:
    """Say what was found.

    Args:
        file: Where the documents came from.
        found: The problems of each of its documents.
    """
    return [
        f"{place}: {problem}"
        for number, problems_ in enumerate(found, start=1)
        for place in [f"{file}: document {number}" if len(found) > 1 else file]
        for problem in problems_
    ]


def jobs(file: str) -> list[ImageNetJob]:
    """The jobs of a file, all of them good.

    Raises:
        ImageNetJobError: The file cannot be read, or a document of it is not good.
    """
    read = documents(file)
    if wrong := lines(file, [problems(document) for document in read]):
        raise ImageNetJobError("\n".join(wrong))
    return [parse(document) for document in read]


def as_written(job: ImageNetJob) -> ImageNetJob:
    """The job without what an API server has added, which `kubectl get -o yaml` shows.

    A job of this name that is run elsewhere is another one, and not deleted when that one is.
    """
    metadata = job.metadata
    written = metadata.model_dump(include=set(_WRITTEN & metadata.model_fields_set))
    return job.model_copy(update={"metadata": ObjectMeta.model_validate(written)})


def as_stored(job: ImageNetJob) -> ImageNetJob:
    """The job with placeholders for what a cluster would give to it, where it has none."""
    metadata = job.metadata
    given = {
        "uid": metadata.uid or PLACEHOLDER_UID,
        "name": metadata.name or f"{metadata.generate_name}{GENERATED}",
    }
    return job.model_copy(update={"metadata": metadata.model_copy(update=given)})

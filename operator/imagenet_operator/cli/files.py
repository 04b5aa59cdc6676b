"""Manifests in files, which all commands read.

`sdk.submission` judges a document. Problems are lines ``FILE: FIELD: what; what to write``.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from imagenet_operator.cli import overrides
from imagenet_operator.cli.overrides import Override
from imagenet_operator.sdk.submission import problems
from imagenet_spec.errors import ImageNetJobError, Problem, UnreadableManifest
from imagenet_spec.load import load
from imagenet_spec.load import parse as parse_text
from imagenet_spec.resource import ImageNetJob, Manifest
from imagenet_spec.resource.job import ObjectMeta
from imagenet_spec.validate import parse

_WRITTEN = frozenset({"name", "generate_name", "namespace", "labels", "annotations"})
"""The metadata fields that users write; an API server sets the others."""


class Dumper(yaml.SafeDumper):
    """A dumper without aliases, which are hard to read in a manifest."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def documents(file: str) -> list[Manifest]:
    """Return the documents of a file, or of the standard input for ``-``."""
    if file != "-":
        return load(Path(file))
    try:
        return parse_text(sys.stdin.read(), "the standard input")
    except UnicodeDecodeError as error:
        raise UnreadableManifest("the standard input", "is not UTF-8 text") from error


def lines(file: str, reports: list[list[Problem]]) -> list[str]:
    """Return one line for each problem."""
    return [
        f"{place}: {problem}"
        for number, problems_ in enumerate(reports, start=1)
        for place in [f"{file}: document {number}" if len(reports) > 1 else file]
        for problem in problems_
    ]


def jobs(file: str, changes: Sequence[Override] = ()) -> list[ImageNetJob]:
    """Return the jobs of a file, or of the standard input for ``-``, with some fields changed.

    Raises:
        ImageNetJobError: The file cannot be read, or a document is invalid.
    """
    read = [overrides.apply(document, changes) for document in documents(file)]
    found = [problems(document) for document in read]
    of_changes = {problem for problem in chain(*found) if overrides.is_source(problem, changes)}
    wrong = [f"{overrides.OPTION}: {problem}" for problem in chain(*found) if problem in of_changes]
    wrong += lines(file, [[one for one in few if one not in of_changes] for few in found])
    if wrong:
        raise ImageNetJobError("\n".join(wrong))
    return [parse(document) for document in read]


def replace(file: Path, text: str) -> None:
    """Write a file at once: nobody sees a part of it."""
    temporary = file.with_name(f".{file.name}.tmp-{secrets.token_hex(4)}")
    try:
        with temporary.open("w", encoding="utf-8") as output:
            output.write(text)
            output.flush()
            os.fsync(output.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def as_written(job: ImageNetJob) -> ImageNetJob:
    """Return the job without the fields that an API server adds.

    A local job is independent of a job with the same name on a cluster, deletionTimestamp included.
    """
    metadata = job.metadata
    written = metadata.model_dump(include=set(_WRITTEN & metadata.model_fields_set))
    return job.model_copy(update={"metadata": ObjectMeta.model_validate(written)})

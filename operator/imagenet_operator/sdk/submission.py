"""Judges a job before it is created, and compares it with a stored one of its name.

What the API server and the operator would refuse is found here first, because only here a problem
has a hint. What a job needs in its namespace is read from its own objects: claims that it names,
Secrets of its pods, and the requests of the pods of one attempt.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, Final

from imagenet_operator.manifests import preview, volumes
from imagenet_operator.reconcile.policies import gang
from imagenet_operator.sdk.errors import Rejected
from imagenet_spec.errors import InvalidJob, InvalidTemplate, Problem
from imagenet_spec.load import load, path_of
from imagenet_spec.resource import ImageNetJob, Manifest
from imagenet_spec.resource.job import LOCAL_PATH
from imagenet_spec.resource.quantities import parse as amount_of
from imagenet_spec.resource.templates import STANDARD, TemplateProfile
from imagenet_spec.validate import parse, validate

PLACEHOLDER_UID: Final = "JOB-UID"
"""The placeholder for the UID of a job that is not on a cluster."""

GENERATED: Final = "xxxxx"
"""The placeholder for the five characters that are appended to `generateName`."""


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


def as_stored(job: ImageNetJob) -> ImageNetJob:
    """Return the job with placeholders for the missing fields that a cluster would set."""
    metadata = job.metadata
    name = metadata.name or f"{metadata.generate_name}{GENERATED}"
    return named(job, name, uid=metadata.uid or PLACEHOLDER_UID)


def named(job: ImageNetJob, name: str, **given: str) -> ImageNetJob:
    """Return the job with another name, and other metadata."""
    metadata = job.metadata.model_copy(update={"name": name, **given})
    return job.model_copy(update={"metadata": metadata})


def read(job: ImageNetJob | Manifest | Path | str) -> ImageNetJob:
    """Return the valid job of a model, a manifest, or a file with one.

    Raises:
        UnreadableManifest: The file cannot be read.
        Rejected: It is invalid, or the file has several.
    """
    if isinstance(job, ImageNetJob):
        document = job.to_manifest()
        if "namespace" not in job.metadata.model_fields_set:
            document["metadata"].pop("namespace", None)
    elif isinstance(job, dict):
        document = job
    else:
        found = load(Path(job))
        if len(found) > 1:
            raise Rejected(
                [Problem("", f"{job} holds {len(found)} documents", "write one job into a file")]
            )
        (document,) = found
    if wrong := problems(document):
        raise Rejected(wrong)
    return parse(document)


def is_same(job: ImageNetJob, stored: ImageNetJob) -> bool:
    """Whether two jobs train the same; `runPolicy` may differ, as for `imagenetctl run`."""
    return job.spec.dataset == stored.spec.dataset and job.spec.training == stored.spec.training


def differences(job: ImageNetJob, stored: ImageNetJob) -> list[Problem]:
    """Return the fields in which a job differs from a stored one.

    Those of `runPolicy` are returned only if the two train the same.
    """
    same = is_same(job, stored)
    new, old = (dict(_leaves(item.spec.to_manifest(), ("spec",))) for item in (job, stored))
    return [
        Problem(
            path_of(path),
            # It may be a password.
            "is not the same here and there"
            if "env" in path
            else f"is {_value(new, path)} here, and {_value(old, path)} there",
        )
        for path in sorted({*new, *old}, key=str)
        if (same or path[1] != "runPolicy") and new.get(path) != old.get(path)
    ]


def secrets(job: ImageNetJob) -> dict[str, str]:
    """Return the Secrets that the pods of a job need: each with the pod's role or Job."""
    found: dict[str, str] = {}
    for user, spec in _pods(job):
        for name in _secret_names(spec):
            found.setdefault(name, user)
    return found


def claims(job: ImageNetJob) -> dict[str, str]:
    """Return the claims that a job names, which must exist: each with the field that names it."""
    return {item.claim: item.path for item in volumes.existing(job)}


def upload_command(job: ImageNetJob, claim: str, beside: Path) -> str | None:
    """Return the command that sends the images of a source's claim, without the options of a place.

    `imagenetctl init` writes into the manifest where they are on this machine. None if it is
    another claim, or nothing says where the images are.
    """
    source, given = job.spec.dataset.source.fields, job.metadata.annotations.get(LOCAL_PATH)
    inside = getattr(source, "path", None)
    if not given or inside is None or source.claim != claim:
        return None
    images = Path(os.path.normpath(beside / given / inside))
    try:
        if images.is_dir():
            files = (Path(above, name) for above, _, names in os.walk(images) for name in names)
            size = sum(file.stat().st_size for file in files if file.is_file())
        else:
            size = images.stat().st_size
    except OSError:
        return None
    # A folder's files go to the same folder on the claim, and a file into its folder there.
    folder = PurePosixPath(inside) if images.is_dir() else PurePosixPath(inside).parent
    path = [] if str(folder) == "." else ["--path", str(folder)]
    # A file system takes room for itself.
    gibibytes = math.ceil(size * 1.1 / (1 << 30))
    command = ["upload", str(images), "--claim", claim, "--size", f"{gibibytes}Gi", *path]
    return shlex.join(["imagenetctl", *command])


def lack(job: ImageNetJob, quota: Manifest) -> list[str]:
    """Return in what a ResourceQuota has no room for one attempt of a job, in words."""
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    wanted: dict[str, Fraction] = {}
    for user, spec in _pods(job):
        if user.startswith("Job "):
            continue
        for resource, amount in (("pods", Fraction(1)), *gang.requests(spec).items()):
            wanted[resource] = wanted.get(resource, Fraction(0)) + amount
    short = []
    for resource, amount in sorted(wanted.items()):
        for key in (resource, f"requests.{resource}"):
            if key in hard:
                left = amount_of(hard[key]) - amount_of(used.get(key, "0"))
                if amount > left:
                    short.append(f"{key}: {_number(amount)} wanted, {_number(left)} left")
    return short


def _pods(job: ImageNetJob) -> Iterator[tuple[str, Manifest]]:
    for item in preview.everything(as_stored(job)):
        name = item["metadata"]["name"]
        if item["kind"] == "Pod":
            yield name, item["spec"]
        elif item["kind"] == "Job":
            yield f"Job {name}", item["spec"]["template"]["spec"]


def _secret_names(spec: Manifest) -> Iterator[str]:
    for item in spec.get("imagePullSecrets") or ():
        yield item["name"]
    for volume in spec.get("volumes") or ():
        secret = volume.get("secret") or {}
        if secret.get("secretName") and not secret.get("optional"):
            yield secret["secretName"]
        for source in (volume.get("projected") or {}).get("sources") or ():
            projected = source.get("secret") or {}
            if projected.get("name") and not projected.get("optional"):
                yield projected["name"]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for source in container.get("envFrom") or ():
            if (reference := source.get("secretRef")) and not reference.get("optional"):
                yield reference["name"]
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference and not reference.get("optional"):
                yield reference["name"]


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    else:
        yield path, value


def _value(leaves: dict[tuple[str | int, ...], Any], path: tuple[str | int, ...]) -> str:
    return repr(leaves[path]) if path in leaves else "absent"


def _number(amount: Fraction) -> str:
    return f"{float(amount):,g}"

"""What archives on servers and in buckets share: opening them, and noticing a change."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import parquet, samples
from imagenet_workloads.prepare.containers.archives import ArchiveSet
from imagenet_workloads.prepare.layouts import file_splits
from imagenet_workloads.prepare.layouts.choice import VALIDATION_ALONE, Choice
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.sources.archives import (
    IN_ARCHIVE,
    open_archive,
    open_flat_archive,
    open_planned_archive,
)
from imagenet_workloads.prepare.sources.reading_estimate import limited_estimates
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.blob import Blob
from imagenet_workloads.prepare.stores.remote import (
    HeaderWindow,
    Limit,
    RemoteBlob,
    RemoteFiles,
    Version,
    limit,
)


def _single(blob: RemoteBlob) -> RemoteFiles:
    """One file as a set."""
    # A file in a cache has the name that the server gives it.
    where, _, name = blob.version.where.rpartition("/")
    return RemoteFiles(where, (name,), lambda _: blob, blob.at_once)


def open_remote(
    blob: RemoteBlob,
    within: str | None,
    most_requests: int | None = None,
    choice: Choice | None = None,
) -> Source:
    """Opens an archive with classes for index; closes it on an error.

    Args:
        blob: the archive.
        within: the folder or tar in it that holds the classes; None for the default.
        most_requests: for listing it and reading its images; None for 4,000,000.
        choice: what the user wrote of its layout.

    Raises:
        InputError: it is no archive, or reading it takes too many requests.
    """
    allowed = limit(most_requests, blob.cache_field) if blob.at_once > 1 else None
    source = _open_file(blob, within, allowed, choice)
    source.limit = allowed
    try:
        # The labels of a Parquet file take a few requests.
        if allowed is not None and not isinstance(source, parquet.Parquet):
            source.listing, source.packing = limited_estimates(source, allowed)
    except BaseException:
        source.close()
        raise
    return source


def _open_file(
    blob: RemoteBlob, within: str | None, allowed: Limit | None, choice: Choice | None
) -> Source:
    """Opens a Parquet file or an archive."""
    if parquet.is_parquet(blob):
        return file_splits.open_file(_single(blob), within, choice)
    name = blob.version.where.rpartition("/")[2]
    return _remote(open_archive(_reading(blob), within, choice, name), blob, allowed)


def open_remote_validation(blob: RemoteBlob, is_flat: bool, option: str) -> Source:
    """Opens an archive of validation images for index; closes it on an error.

    Args:
        blob: the archive.
        is_flat: whether a label file has the classes.
        option: the option that names it, for `is_of_option`.

    Raises:
        InputError: its layout is unknown.
    """
    if not is_flat and parquet.is_parquet(blob):
        source = file_splits.open_file(_single(blob), None)
        source.plan_fields = {"option": option}
        return source
    window = _reading(blob)
    source = open_flat_archive(window) if is_flat else open_archive(window, choice=VALIDATION_ALONE)
    source.plan_fields = {**source.plan_fields, "option": option}
    return _remote(source, blob)


def is_of_option(planned: Fields, option: str) -> bool:
    """Whether a planned source is the archive of an option for validation images."""
    return planned.has("option") and planned.text("option") == option


def open_remote_planned(planned: Fields, blob: RemoteBlob, within: str | None) -> Source:
    """Opens an archive again for pack; closes it on an error.

    Raises:
        InputError: it has changed since it was indexed.
    """
    if planned.text("kind") == parquet.KIND and not planned.has(IN_ARCHIVE):
        return parquet.open_planned(planned, _single(blob))
    if planned.text("kind") == samples.KIND:
        return ArchiveSet(_single(blob), (), planned.object("version"))
    try:
        _require_version(planned, blob.version)
        source = open_planned_archive(planned, _reading(blob), within)
    except BaseException:
        blob.close()
        raise
    return _remote(source, blob)


def pinned(source: Source, fields: Mapping[str, Any]) -> Source:
    """Notes in the plan what pack needs to find the same files, for the validation images too."""
    source.plan_fields = {**source.plan_fields, **fields}
    # A decided source has its validation images once it is listed, with its own fields.
    open_own = None if isinstance(source, DecidedSource) else source.own_validation
    if open_own is not None:

        def own_validation() -> Validation | None:
            validation = open_own()
            if validation is not None:
                pinned(validation.source, fields)
            return validation

        source.own_validation = own_validation
    return source


def _reading(blob: RemoteBlob) -> Blob:
    """A blob that reads few headers for each request; closes it on an error.

    Raises:
        InputError: it is compressed.
    """
    if blob.at_once == 1:
        return blob
    window = HeaderWindow(blob)
    try:
        format = compressed.format_of(window.read(0, compressed.MAGIC))
        if format is not None:
            raise InputError(
                f"{blob.where}: is compressed ({format}), so it cannot be read in place; "
                f"write {blob.cache_field}, and it is decompressed there once"
            )
    except BaseException:
        window.close()
        raise
    return window


def _require_version(planned: Fields, now: Version) -> None:
    if not planned.has("version"):
        return
    before = Version.from_fields(planned.object("version"))
    # Another job may have indexed the same images elsewhere: the key does not depend on the place.
    if before.where == now.where:
        before.require(now)


def _remote(source: Source, blob: RemoteBlob, allowed: Limit | None = None) -> Source:
    source.limit = allowed
    # Parquet files in an archive have tags of their own.
    source.version = {**source.version, **blob.version.to_document()}
    # Those of an archive are read one after the other.
    if not isinstance(source, parquet.Parquet):
        source.reads_at_once = blob.at_once
    open_own = None if isinstance(source, DecidedSource) else source.own_validation
    if open_own is not None:

        def own_validation() -> Validation | None:
            validation = open_own()
            if validation is None:
                return None
            return replace(validation, source=_remote(validation.source, blob, allowed))

        source.own_validation = own_validation
    return source

"""Opens archives and Parquet files for index, which decides their layout, or by a plan for pack.

They are one `Blob` or several files of a volume, a server or a bucket. What lies behind a network
is read with few requests, within a limit, and a change of it is noticed.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from imagenet_workloads.clients import TRAFFIC
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import parquet, samples
from imagenet_workloads.prepare.containers.archive import (
    Archive,
    FilesOfArchive,
    Kind,
    is_file,
    prefix,
    require_data,
)
from imagenet_workloads.prepare.containers.archives import (
    FLAT,
    FOLDERS,
    FORMATS,
    KINDS_OF_SETS,
    OF_ARCHIVES,
    ArchiveListing,
    ArchiveSet,
    FlatArchive,
    planned_archive,
)
from imagenet_workloads.prepare.containers.tar import BLOCK, TarArchive, header_size
from imagenet_workloads.prepare.containers.zip import END, LOCAL, ZipArchive
from imagenet_workloads.prepare.entry_names import is_hidden
from imagenet_workloads.prepare.layouts import cifar
from imagenet_workloads.prepare.layouts.choice import CIFAR, PARQUET, VALIDATION_ALONE, Choice
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.layouts.splits import (
    open_parquet_file,
    open_parquet_files,
    splits_of_archives,
)
from imagenet_workloads.prepare.layouts.survey import Contents, is_download_of_cifar
from imagenet_workloads.prepare.source import Location, Notes, ReadingEstimate, Source, Validation
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.blob import Blob, DamagedImageError, FileSet, changed
from imagenet_workloads.prepare.stores.compressed import require_uncompressed
from imagenet_workloads.prepare.stores.remote import (
    MOST_REQUESTS,
    HeaderWindow,
    Limit,
    RemoteBlob,
    RemoteFiles,
    Version,
)

IN_ARCHIVE = "inArchive"
"""The field of a plan whose Parquet files are in an archive."""

KINDS = (*OF_ARCHIVES, *FOLDERS, *FLAT, *cifar.KINDS)
KINDS_OF_SEVERAL = (*KINDS_OF_SETS, samples.KIND, parquet.KIND)


def open_archive(
    blob: Blob, within: str | None = None, choice: Choice | None = None, name: str = ""
) -> Source:
    """Opens a tar or zip that contains its classes. Closes it on an error.

    `within` is the folder or archive in it that is the source's root; by default the archive's.
    `name` is that of the archive's file, which names the images of a shard.

    Raises:
        InputError: it is no archive, or holds no images, or they are of several layouts.
    """
    choice = choice or Choice()
    with _closed_on_error(blob):
        archive, root = _enter(blob, within)
        found = _contents(archive, root, is_whole=choice.layout in (CIFAR, PARQUET))
        layout = found.layout(choice)
        if layout == CIFAR:
            (folder,) = found.cifar_folders()
            return _cifar(archive, folder)
        if layout == PARQUET:
            source = open_parquet_files(_members_of_parquet(archive, root), choice)
            assert source is not None
            return pinned(source, {IN_ARCHIVE: True})
        if not (found.image or found.archives):
            under = f" under {root} (pathInArchive)" if root else ""
            raise InputError(f"{blob.where}: holds neither images nor archives of images{under}")
        return DecidedSource(ArchiveListing(archive, root, "" if within else name), choice)


def open_planned_archive(planned: Fields, blob: Blob, within: str | None = None) -> Source:
    """Opens an archive again for pack; an `InputError` for another one. Closes it on an error."""
    kind = planned.text("kind")
    with _closed_on_error(blob):
        archive, root = _enter(blob, within)
        if kind == parquet.KIND:
            return parquet.open_planned(planned, _members_of_parquet(archive, root))
        if kind in cifar.KINDS:
            folders = _contents(archive, root, is_whole=True).cifar_folders()
            return cifar.open_planned(planned, blob.where, folders, partial(_cifar, archive))
        if not kind.startswith((f"{archive.format} ", f"flat {archive.format}")):
            raise changed(blob.where, f"is a {archive.format} in place of a {kind}")
        return planned_archive(archive, kind)


def open_flat_archive(blob: Blob) -> Source:
    """Opens an archive whose images get their classes from a label file. Closes it on an error."""
    with _closed_on_error(blob):
        return FlatArchive(_archive(blob))


@contextmanager
def _closed_on_error(opened: Blob | FileSet | Source) -> Iterator[None]:
    try:
        yield
    except BaseException:
        opened.close()
        raise


def _members_of_parquet(archive: Archive, root: str | None) -> FilesOfArchive:
    found = (
        member
        for member in archive.members()
        if member.name.startswith(prefix(root)) and member.name.endswith(parquet.SUFFIX)
    )
    return FilesOfArchive(archive, (member for member in found if is_file(member)))


def _enter(blob: Blob, within: str | None) -> tuple[Archive, str | None]:
    """The archive that a path in an archive names or leads into, and the folder there."""
    archive = _archive(blob)
    if within is None:
        return archive, None
    # As names have it: "" for the archive's own root.
    root = "/".join(part for part in within.split("/") if part not in ("", "."))
    if root.endswith(tuple(FORMATS)):
        for member in archive.members():
            if member.name == root and is_file(member):
                require_data(member, blob.where)
                return _archive(archive.part(member)), None
    return archive, root


def _archive(blob: Blob) -> Archive:
    start = blob.read(0, BLOCK)
    if start.startswith((LOCAL, END)):
        return ZipArchive(blob)
    require_uncompressed(start, blob.where)
    if any(start) and header_size(start) is None:
        raise InputError(f"{blob.where}: is neither a folder nor a tar or zip archive")
    return TarArchive(blob)


def _cifar(archive: Archive, folder: str) -> Source:
    files: dict[str, Blob] = {}
    for member in archive.members():
        above, _, name = member.name.rpartition("/")
        if above == folder and name in cifar.FILES and member.kind is Kind.FILE:
            files[name] = archive.part(member)
    return cifar.open_cifar(archive.blob.where, files, archive.blob.close)


def _contents(archive: Archive, root: str | None, *, is_whole: bool) -> Contents:
    """What an archive holds, up to the first image or archive unless the whole is wanted.

    The listing finds what comes after it.
    """
    where = archive.blob.where
    found = Contents(where, ("--path-in-archive", "", "pathInArchive"))
    for member in archive.members():
        folder, _, base = member.name.rpartition("/")
        is_below = member.name.startswith(prefix(root)) and not base.startswith(".")
        if not is_below or not is_file(member) or is_hidden(folder[len(prefix(root)) :]):
            continue
        if compressed.is_compressed_tar(base) and not is_download_of_cifar(base):
            raise InputError(
                f"{where}: its inner archive {member.name} is compressed, and images are "
                "read in place, by offset; decompress the inner archives first"
            )
        found.add(member.name, FORMATS)
        if (found.image or found.archives) and not is_whole:
            break
    return found


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
    """Opens an archive or Parquet file with classes for index; closes it on an error.

    `most_requests` are those of listing it and reading its images; None for 4,000,000.

    Raises:
        InputError: it is no archive, or reading it takes too many requests.
    """
    most = most_requests or MOST_REQUESTS
    allowed = Limit(most, blob.cache_field) if blob.at_once > 1 else None
    if parquet.is_parquet(blob):
        source = open_parquet_file(_single(blob), within, choice)
    else:
        name = blob.version.where.rpartition("/")[2]
        source = _remote(open_archive(_reading(blob), within, choice, name), blob, allowed)
    source.limit = allowed
    with _closed_on_error(source):
        # The labels of a Parquet file take a few requests.
        if allowed is not None and not isinstance(source, parquet.Parquet):
            source.listing, source.packing = limited_estimates(source, allowed)
    return source


def open_remote_validation(blob: RemoteBlob, is_flat: bool, option: str) -> Source:
    """Opens an archive of validation images for index; closes it on an error.

    The classes are in a label file if it is flat. The option names it, for `is_of_option`.
    """
    if not is_flat and parquet.is_parquet(blob):
        source = open_parquet_file(_single(blob), None)
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
    """Opens an archive again for pack, which must not have changed; closes it on an error."""
    if planned.text("kind") == parquet.KIND and not planned.has(IN_ARCHIVE):
        return parquet.open_planned(planned, _single(blob))
    if planned.text("kind") == samples.KIND:
        return ArchiveSet(_single(blob), (), planned.object("version"))
    with _closed_on_error(blob):
        if planned.has("version"):
            before, now = Version.from_fields(planned.object("version")), blob.version
            # Another job may have indexed the same images elsewhere: the key does not depend on it.
            if before.where == now.where:
                before.require(now)
        source = open_planned_archive(planned, _reading(blob), within)
    return _remote(source, blob)


def pinned(source: Source, fields: Mapping[str, Any]) -> Source:
    """Notes in the plan what pack needs to find the same files, for the validation images too."""

    def note(one: Source) -> None:
        one.plan_fields = {**one.plan_fields, **fields}

    return _with_validation(source, note)


def _with_validation(source: Source, change: Callable[[Source], None]) -> Source:
    """Changes a source, and the validation images beside it when they are opened."""
    change(source)
    # A decided source has its validation images once it is listed, with its own fields.
    open_own = None if isinstance(source, DecidedSource) else source.own_validation
    if open_own is not None:

        def own_validation() -> Validation | None:
            validation = open_own()
            if validation is not None:
                _with_validation(validation.source, change)
            return validation

        source.own_validation = own_validation
    return source


def _reading(blob: RemoteBlob) -> Blob:
    """A blob that reads few headers for each request; closes it if it is compressed."""
    if blob.at_once == 1:
        return blob
    window = HeaderWindow(blob)
    with _closed_on_error(window):
        format = compressed.format_of(window.read(0, compressed.MAGIC))
        if format is not None:
            raise InputError(
                f"{blob.where}: is compressed ({format}), so it cannot be read in place; "
                f"write {blob.cache_field}, and it is decompressed there once"
            )
    return window


def _remote(source: Source, blob: RemoteBlob, allowed: Limit | None = None) -> Source:
    """Says of a source that it is read from a server, and in which version."""

    def note(one: Source) -> None:
        one.limit = allowed
        # Parquet files in an archive have tags of their own.
        one.version = {**one.version, **blob.version.to_document()}
        # Those of an archive are read one after the other.
        if not isinstance(one, parquet.Parquet):
            one.reads_at_once = blob.at_once

    return _with_validation(source, note)


def is_one_of_several(name: str) -> bool:
    """Whether a file is named like one of many archives."""
    return name.endswith((".tar", ".zip", parquet.SUFFIX)) or compressed.is_compressed_tar(name)


def open_archives(
    files: RemoteFiles, most_requests: int | None, cache_field: str, choice: Choice | None = None
) -> Source:
    """Opens archives for index; closes them on an error.

    `most_requests` are those of listing them and reading their images; None for 4,000,000.

    Raises:
        InputError: they are of several kinds, or compressed and in no cache, or reading them takes
            too many requests.
    """
    files = _by_plain_names(files, cache_field)
    with _closed_on_error(files):
        most = most_requests or MOST_REQUESTS
        allowed = Limit(most, cache_field) if files.reads_at_once > 1 else None
        held = Contents(files.where, ("", "", "url, prefix or keys"))
        for name in files.names:
            held.add(name, FORMATS)
        source = None
        if held.layout(choice or Choice()) == PARQUET:
            source = open_parquet_files(files, choice)
        if source is None:
            others = [name for name in files.names if name not in {*held.archives}]
            splits = splits_of_archives(held.archives, choice or Choice())
            archives = ArchiveSet(files, held.archives, others=others, splits=splits)
            source = DecidedSource(archives, choice)
            if allowed is not None:
                source.listing, source.packing = limited_estimates(source, allowed)
        source.limit = allowed
    return source


def open_planned_archives(planned: Fields, files: RemoteFiles) -> Source:
    """Opens the archives of a plan, which must not have changed, again for pack."""
    files = _by_plain_names(files)
    kind = planned.text("kind")
    if kind == parquet.KIND:
        return parquet.open_planned(planned, files)
    within = planned.text("within") if planned.has("within") else ""
    return ArchiveSet(files, (), planned.object("version"), within=within)


def _by_plain_names(files: RemoteFiles, cache_field: str = "cache") -> RemoteFiles:
    """The archives by the names that the dataset has: a cache has compressed ones decompressed."""
    names = compressed.by_plain_name(files.names, files.where)
    packed = next((name for plain, name in names.items() if plain != name), None)
    if packed is None:
        return files
    if files.reads_at_once > 1:
        raise InputError(
            f"{files.where}: {packed} is compressed, and images are read in place, by offset; "
            f"write {cache_field}, where it is stored decompressed"
        )
    return RemoteFiles(
        files.where, sorted(names), lambda name: files.blob(names.get(name, name)), 1
    )


# A sample has so many images and requests. A request has many headers of small images, or of a
# zip: then the images end the sample.
_IMAGES, _REQUESTS = 256, 32
_MOST_IMAGES = 32_768
# Larger images are not read to measure the speed.
_LARGEST = 16 << 20

_log = logging.getLogger(__name__)


def limited_estimates(source: Source, limit: Limit) -> tuple[ReadingEstimate, ReadingEstimate]:
    """Estimates listing and packing by the first images, and logs them.

    No other thread may read the source meanwhile.

    Raises:
        InputError: they take more requests than allowed, or the source cannot be listed.
    """
    requests, bytes, started = TRAFFIC.requests, TRAFFIC.bytes, time.monotonic()
    notes, factor, images, size = Notes(), 1.0, 0, 0
    locations: list[Location] = []
    for image in source.scan_in_turn(notes):
        images, size = images + 1, size + image.size
        if len(locations) < sample_size(source) and image.size <= _LARGEST:
            locations.append(Location(image.name, image.offset, image.size))
        is_enough = images >= _IMAGES and TRAFFIC.requests - requests >= _REQUESTS
        if (is_enough or images >= _MOST_IMAGES) and notes.share > 0:
            factor = max(1.0, 1 / notes.share)
            break
    listing = ReadingEstimate(
        round((TRAFFIC.requests - requests) * factor),
        round((TRAFFIC.bytes - bytes) * factor),
        round((time.monotonic() - started) * factor / source.lists_at_once),
    )
    images, size = round(images * factor), round(size * factor)
    if listing.requests + images > limit.most:
        raise InputError(
            f"{source.where}: listing takes about {listing.requests} requests and packing "
            f"{images}, and {limit.most} are allowed; raise maxRequests, or write "
            f"{limit.cache_field}, which stores the archive first"
        )
    packing = ReadingEstimate(images, size, seconds_to_read(source, locations, size))
    for step, expected in (("listing", listing), ("packing in one pod", packing)):
        _log.info("%s: %s takes about %s", source.where, step, expected)
    return listing, packing


def seconds_to_read(source: Source, locations: Sequence[Location], bytes: int) -> int:
    """The time in which one pod of pack reads images, if decoding is faster than reading.

    The locations are a sample, of which `sample_size` are read; the bytes are those of all images.
    """

    def read(location: Location) -> None:
        with suppress(DamagedImageError, PermissionError):
            source.read(*location)

    at_once = source.reads_at_once
    sample = locations[: sample_size(source)]
    # The first reads open the connections.
    timed = () if source.reads_in_order else sample[at_once:]
    with ThreadPoolExecutor(at_once, thread_name_prefix="sample") as pool:
        if timed:
            list(pool.map(read, sample[:at_once]))
        before, started = TRAFFIC.bytes, time.monotonic()
        list(pool.map(read, timed or sample))
        seconds = time.monotonic() - started
    received = TRAFFIC.bytes - before
    return round(seconds * bytes / received) if received else 0


def sample_size(source: Source) -> int:
    """The images that `seconds_to_read` reads; those of a Parquet file take a row group each."""
    return source.reads_at_once * (1 if source.reads_in_order else 3)

"""Several archives on a server or in a bucket: one a class, WebDataset's shards, Parquet files."""

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import archives, parquet, samples
from imagenet_workloads.prepare.containers.archives import FORMATS, ArchiveSet
from imagenet_workloads.prepare.layouts import file_splits
from imagenet_workloads.prepare.layouts.choice import PARQUET, Choice
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.layouts.file_splits import splits_of_archives
from imagenet_workloads.prepare.layouts.survey import Contents
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.sources.reading_estimate import limited_estimates
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.remote import RemoteFiles, limit

_SUFFIXES = (".tar", ".zip", parquet.SUFFIX)
KINDS = (*archives.KINDS_OF_SETS, samples.KIND, parquet.KIND)


def is_archive(name: str) -> bool:
    """Whether a file is named like one of many archives."""
    return name.endswith(_SUFFIXES) or compressed.is_compressed_tar(name)


def open_archives(
    files: RemoteFiles, most_requests: int | None, cache_field: str, choice: Choice | None = None
) -> Source:
    """Opens archives for index; closes them on an error.

    Args:
        files: the archives.
        most_requests: for listing them and reading their images; None for 4,000,000.
        cache_field: the field of the manifest that has them stored first.
        choice: what the user wrote of their layout.

    Raises:
        InputError: they are of several kinds, or compressed and in no cache, or reading them
            takes too many requests.
    """
    try:
        files = _by_plain_names(files, cache_field)
        allowed = limit(most_requests, cache_field) if files.reads_at_once > 1 else None
        held = Contents(files.where, ("", "", "url, prefix or keys"))
        for name in files.names:
            held.add(name, FORMATS)
        source = None
        if held.layout(choice or Choice()) == PARQUET:
            source = file_splits.open_files(files, choice)
        if source is None:
            others = [name for name in files.names if name not in {*held.archives}]
            splits = splits_of_archives(held.archives, choice or Choice())
            archives = ArchiveSet(files, held.archives, others=others, splits=splits)
            source = DecidedSource(archives, choice)
            if allowed is not None:
                source.listing, source.packing = limited_estimates(source, allowed)
        source.limit = allowed
    except BaseException:
        files.close()
        raise
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

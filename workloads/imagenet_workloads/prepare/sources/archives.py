"""Opens an archive in a `Blob` for index, which decides its layout, or by a plan for pack."""

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import parquet
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
    OF_ARCHIVES,
    ArchiveListing,
    ArchiveReader,
    FlatArchive,
)
from imagenet_workloads.prepare.containers.tar import BLOCK, TarArchive, header_size
from imagenet_workloads.prepare.containers.zip import END, LOCAL, ZipArchive
from imagenet_workloads.prepare.entry_names import is_hidden
from imagenet_workloads.prepare.layouts import cifar, file_splits
from imagenet_workloads.prepare.layouts.choice import CIFAR, PARQUET, Choice
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.layouts.survey import Contents, is_download_of_cifar
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.blob import Blob, changed
from imagenet_workloads.prepare.stores.compressed import require_uncompressed

IN_ARCHIVE = "inArchive"
"""The field of a plan whose Parquet files are in an archive."""

KINDS = (*OF_ARCHIVES, *FOLDERS, *FLAT, *cifar.KINDS)


def open_archive(
    blob: Blob, within: str | None = None, choice: Choice | None = None, name: str = ""
) -> Source:
    """Opens a tar or zip that contains its classes. Closes it on an error.

    Args:
        blob: the archive.
        within: the folder or archive in it that is the source's root; by default the archive's.
        choice: what the user wrote of its layout.
        name: of the archive's file, which names the images of a shard.

    Raises:
        InputError: it is no archive, or holds no images, or they are of several layouts.
    """
    choice = choice or Choice()
    try:
        archive, root = _enter(blob, within)
        found = _contents(archive, root, is_whole=choice.layout in (CIFAR, PARQUET))
        layout = found.layout(choice)
        if layout == CIFAR:
            (folder,) = found.cifar_folders()
            return _cifar(archive, folder)
        if layout == PARQUET:
            return _parquet_files(archive, root, choice)
        if not (found.image or found.archives):
            under = f" under {root} (pathInArchive)" if root else ""
            raise InputError(f"{blob.where}: holds neither images nor archives of images{under}")
        return DecidedSource(ArchiveListing(archive, root, "" if within else name), choice)
    except BaseException:
        blob.close()
        raise


def open_planned_archive(planned: Fields, blob: Blob, within: str | None = None) -> Source:
    """Opens an archive again for pack. Closes it on an error.

    Args:
        planned: from `Source.to_document`.
        blob: the archive.
        within: as given to `open_archive`.

    Raises:
        InputError: it is another archive than was planned.
    """
    kind = planned.text("kind")
    archive, root = _enter(blob, within)
    if kind == parquet.KIND:
        return parquet.open_planned(planned, _members_of_parquet(archive, root))
    if kind in cifar.KINDS:
        folders = _contents(archive, root, is_whole=True).cifar_folders()
        if len(folders) != 1:
            blob.close()
            raise changed(blob.where, f"is no {kind}")
        return cifar.planned_split(planned, _cifar(archive, folders[0]))
    if not kind.startswith((f"{archive.format} ", f"flat {archive.format}")):
        blob.close()
        raise changed(blob.where, f"is a {archive.format} in place of a {kind}")
    return ArchiveReader(archive, kind)


def open_flat_archive(blob: Blob) -> Source:
    """Opens an archive whose images get their classes from a label file. Closes it on an error.

    Raises:
        InputError: it is no archive.
    """
    try:
        return FlatArchive(_archive(blob))
    except BaseException:
        blob.close()
        raise


def _parquet_files(archive: Archive, root: str | None, choice: Choice | None) -> Source:
    """The images of the Parquet files below a root."""
    source = file_splits.open_files(_members_of_parquet(archive, root), choice)
    assert source is not None
    return _marked(source)


def _marked(source: Source) -> Source:
    """Notes in the plan that the Parquet files are in an archive, for the validation images too."""
    source.plan_fields = {**source.plan_fields, IN_ARCHIVE: True}
    open_own = source.own_validation
    if open_own is not None:

        def own_validation() -> Validation | None:
            validation = open_own()
            if validation is not None:
                _marked(validation.source)
            return validation

        source.own_validation = own_validation
    return source


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
    root = _normal(within)
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
    """The images of CIFAR in a folder with its files."""
    files: dict[str, Blob] = {}
    for member in archive.members():
        above, _, name = member.name.rpartition("/")
        if above == folder and name in cifar.FILES and member.kind is Kind.FILE:
            files[name] = archive.part(member)
    return cifar.open_cifar(archive.blob.where, files, archive.blob.close)


def _normal(path: str) -> str:
    """A path in an archive as names have it: "" for the archive's own root."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


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

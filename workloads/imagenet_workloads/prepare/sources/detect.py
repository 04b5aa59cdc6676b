"""Tells which kind of source a path is, by looking at it and not at its name."""

from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.archive import Archive
from imagenet_workloads.prepare.sources.flat import FlatFolder, FlatTar
from imagenet_workloads.prepare.sources.folder import Folder
from imagenet_workloads.prepare.sources.interface import Source, is_image
from imagenet_workloads.prepare.sources.tar import BLOCK, Kind, header_size, members
from imagenet_workloads.prepare.sources.tar_of_folders import TarOfFolders
from imagenet_workloads.prepare.sources.tar_of_tars import TarOfTars

_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}


def open_source(path: Path) -> Source:
    """Opens a source whose classes show in it: a folder, a tar of tars or a tar of folders.

    Raises:
        InputError: there is no such path, or it is none of these.
    """
    if path.is_dir():
        return Folder(path)
    archive = _open_archive(path)
    try:
        first = _first_name(archive)
        if first.endswith(".tar"):
            return TarOfTars(archive)
        if "/" in first:
            return TarOfFolders(archive)
        raise InputError(
            f"{path}: its images (such as {first}) are in no folders, so they have no classes; "
            "give it as --validation-source with --validation-labels"
        )
    except BaseException:
        archive.close()
        raise


def open_flat(path: Path) -> Source:
    """Opens a source whose classes stand in a label file: a flat folder or a flat tar.

    Raises:
        InputError: there is no such path, or it is neither.
    """
    if path.is_dir():
        return FlatFolder(path)
    return FlatTar(_open_archive(path))


def _open_archive(path: Path) -> Archive:
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    archive = Archive(path)
    try:
        with path.open("rb") as file:
            start = file.read(BLOCK)
        for magic, (format, program) in _COMPRESSED.items():
            if start.startswith(magic):
                raise InputError(
                    f"{path}: is compressed ({format}), and images are read in place, by offset; "
                    f"decompress it first by {program}"
                )
        if any(start) and header_size(start) is None:
            raise InputError(f"{path}: is neither a folder nor a tar archive")
    except BaseException:
        archive.close()
        raise
    return archive


def _first_name(archive: Archive) -> str:
    """The name of the first member that is an image or a tar."""
    for member in members(archive.whole()):
        hidden = member.name.rpartition("/")[2].startswith(".")
        if member.kind is Kind.FOLDER or hidden:
            continue
        if member.name.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
            raise InputError(
                f"{archive.path}: its inner archive {member.name} is compressed, and images are "
                "read in place, by offset; decompress the inner archives first"
            )
        if member.name.endswith(".tar") or is_image(member.name):
            return member.name
    raise InputError(f"{archive.path}: holds neither images nor archives of images")

"""How a tar holds images: as a tar of class tars, in class folders, or flat.

All three read a `Blob`, so that a tar may lie wherever ranges of bytes can be read. `volume` opens
those of a folder in the file system.
"""

from collections.abc import Iterator

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.source import (
    Blob,
    Image,
    Notes,
    Source,
    changed,
    class_name_in,
    is_image,
    readable,
)
from imagenet_workloads.prepare.sources.tar import (
    BLOCK,
    Kind,
    Member,
    Region,
    header_size,
    members,
)

_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}

# What is passed over, whatever its name: folders, and pipes and devices.
_NO_FILES = (Kind.FOLDER, Kind.OTHER)


def open_tar(blob: Blob) -> Source:
    """Opens a tar whose classes show in it: a tar of tars, or of folders. Closes it on an error.

    Raises:
        InputError: it is neither.
    """
    try:
        _require_tar(blob)
        first = _first_name(blob)
        if first.endswith(".tar"):
            return TarOfTars(blob)
        if "/" in first:
            return TarOfFolders(blob)
        raise InputError(
            f"{blob.where}: its images (such as {first}) are in no folders, so they have no "
            "classes; give it as --validation-source with --validation-labels"
        )
    except BaseException:
        blob.close()
        raise


def open_flat_tar(blob: Blob) -> Source:
    """Opens a tar whose images get their classes from a label file. Closes it on an error.

    Raises:
        InputError: it is no tar.
    """
    try:
        _require_tar(blob)
    except BaseException:
        blob.close()
        raise
    return FlatTar(blob)


def _require_tar(blob: Blob) -> None:
    start = blob.read(0, BLOCK)
    _require_uncompressed(start, blob.where)
    if any(start) and header_size(start) is None:
        raise InputError(f"{blob.where}: is neither a folder nor a tar archive")


def _require_uncompressed(start: bytes, where: str) -> None:
    for magic, (format, program) in _COMPRESSED.items():
        if start.startswith(magic):
            raise InputError(
                f"{where}: is compressed ({format}), and images are read in place, by "
                f"offset; decompress it first by {program}"
            )


def _first_name(blob: Blob) -> str:
    """The name of the first member that is an image or a tar."""
    for member in members(_whole(blob)):
        hidden = member.name.rpartition("/")[2].startswith(".")
        if member.kind in _NO_FILES or hidden:
            continue
        if member.name.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
            raise InputError(
                f"{blob.where}: its inner archive {member.name} is compressed, and images are "
                "read in place, by offset; decompress the inner archives first"
            )
        if member.name.endswith(".tar") or is_image(member.name):
            return member.name
    raise InputError(f"{blob.where}: holds neither images nor archives of images")


def _whole(blob: Blob) -> Region:
    return Region(blob, 0, blob.size, blob.where)


def _is_image(member: Member) -> bool:
    return member.kind not in _NO_FILES and is_image(member.name)


def _pass_over(member: Member, notes: Notes) -> None:
    if member.kind is not Kind.FOLDER:
        notes.pass_over(member.name)


def _require_data(member: Member, where: str) -> None:
    """Checks that the member of an image holds the bytes itself.

    Raises:
        InputError: it is a link, or sparse.
    """
    if member.kind in (Kind.LINK, Kind.SPARSE):
        what = "a link" if member.kind is Kind.LINK else "a sparse file"
        raise InputError(
            f"{where}: {readable(member.name)} is {what}, which cannot be read in place; "
            "make the archive again by tar --dereference --hard-dereference"
        )


class _TarSource(Source):
    """A tar in a blob, which it closes."""

    def __init__(self, blob: Blob) -> None:
        self.where = blob.where
        self._blob = blob

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image, checked against the header before them.

        Raises:
            InputError: no member of that size begins there any more.
        """
        block = self._blob.read(offset - BLOCK, BLOCK + size)
        # A pax header may state the size in this one's stead, but only from 8 GiB on.
        if len(block) != BLOCK + size or header_size(block[:BLOCK]) != size:
            raise changed(self.where, f"{name} is not at byte {offset}")
        return block[BLOCK:]

    def close(self) -> None:
        """Closes the blob."""
        self._blob.close()


class TarOfTars(_TarSource):
    """One tar a class, as fall11_whole.tar: its name without `.tar` is the class."""

    kind = "tar of tars"

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images of each inner tar, in the order of the archive."""
        seen: set[str] = set()
        for outer in members(_whole(self._blob)):
            base = outer.name.rpartition("/")[2]
            if base.startswith(".") or not base.endswith(".tar") or outer.kind in _NO_FILES:
                _pass_over(outer, notes)
                continue
            _require_data(outer, self.where)
            class_name = class_name_in(base.removesuffix(".tar"), self.where)
            if class_name in seen:
                raise InputError(
                    f"{self.where}: holds two archives called {base}; a class must be in one"
                )
            seen.add(class_name)
            notes.share = outer.offset / self._blob.size
            yield from self._scan_class(class_name, outer, notes)

    def _scan_class(self, class_name: str, outer: Member, notes: Notes) -> Iterator[Image]:
        images = 0
        where = f"{self.where}: {outer.name}"
        region = Region(self._blob, outer.offset, outer.offset + outer.size, where)
        _require_uncompressed(self._blob.read(outer.offset, min(outer.size, BLOCK)), where)
        # A class that was never downloaded can be a tar of 0 bytes.
        for member in members(region) if outer.size else ():
            if not _is_image(member):
                _pass_over(member, notes)
                continue
            _require_data(member, where)
            images += 1
            name = f"{outer.name}/{member.name}"
            yield Image(class_name, name, member.offset, member.size, member.mtime)
        if images == 0:
            notes.empty.append(class_name)


class TarOfFolders(_TarSource):
    """The folder that directly holds an image is its class; folders above do not matter."""

    kind = "tar of folders"

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the archive."""
        folders: dict[str, str] = {}
        for member in members(_whole(self._blob)):
            if not _is_image(member) or "/" not in member.name:
                _pass_over(member, notes)
                continue
            _require_data(member, self.where)
            class_name = self._class_of(member.name, folders)
            notes.share = member.offset / self._blob.size
            yield Image(class_name, member.name, member.offset, member.size, member.mtime)

    def _class_of(self, name: str, folders: dict[str, str]) -> str:
        folder = name.rpartition("/")[0]
        class_name = folder.rpartition("/")[2]
        if folders.get(class_name) != folder:
            # Such as train/n01440764 and val/n01440764: merging them would be silent damage.
            if class_name in folders:
                raise InputError(
                    f"{self.where}: holds two folders called {class_name}, "
                    f"{folders[class_name]} and {folder}; make an archive of the training one alone"
                )
            folders[class_name_in(class_name, self.where)] = folder
        return class_name


class FlatTar(_TarSource):
    """Images without classes, as ILSVRC2012_img_val.tar; `labels` reads their classes."""

    kind = "flat tar"

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the archive."""
        for member in members(_whole(self._blob)):
            if not _is_image(member):
                _pass_over(member, notes)
                continue
            _require_data(member, self.where)
            notes.share = member.offset / self._blob.size
            yield Image("", member.name, member.offset, member.size, member.mtime)

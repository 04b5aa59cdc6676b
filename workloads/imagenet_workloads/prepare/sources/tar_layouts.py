"""How a tar holds images: as a tar of class tars, in class folders, or flat.

All three read a `Blob`, so that a tar may lie wherever ranges of bytes can be read. `volume` opens
those of a folder in the file system.
"""

from collections.abc import Iterable, Iterator

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.layout import Layout
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


def open_tar(blob: Blob, within: str | None = None) -> Source:
    """Opens a tar whose classes show in it: a tar of tars, or of folders. Closes it on an error.

    Args:
        blob: the tar.
        within: the folder or tar in it that is the source's root; None for the folder that holds
            all classes.

    Raises:
        InputError: it is neither.
    """
    try:
        _require_tar(blob)
        root = None if within is None else _normal(within)
        if root is not None and (inner := _inner_tar(blob, root)) is not None:
            blob, root = inner, None
            _require_tar(blob)
        first = _first_name(blob, root)
        if first.endswith(".tar"):
            return TarOfTars(blob, root)
        if "/" in first.removeprefix(_prefix(root)):
            return TarOfFolders(blob, root)
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


class _InnerTar:
    """A tar in a tar, as a `Blob`."""

    def __init__(self, blob: Blob, member: Member) -> None:
        self.where = f"{blob.where}: {member.name}"
        self.size = member.size
        self._blob = blob
        self._start = member.offset

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range."""
        return self._blob.read(self._start + offset, min(size, self.size - offset))

    def close(self) -> None:
        """Closes the outer tar."""
        self._blob.close()


def _inner_tar(blob: Blob, name: str) -> Blob | None:
    """The tar of a name in a tar; None if it is a folder's."""
    if not name.endswith(".tar"):
        return None
    for member in members(_whole(blob)):
        if member.name == name and member.kind not in _NO_FILES:
            _require_data(member, blob.where)
            return _InnerTar(blob, member)
    return None


def _normal(path: str) -> str:
    """A path in an archive as names have it: "" for the archive's own root."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _prefix(root: str | None) -> str:
    return f"{root}/" if root else ""


def _first_name(blob: Blob, root: str | None = None) -> str:
    """The name of the first member under the root that is an image or a tar."""
    for member in members(_whole(blob)):
        hidden = member.name.rpartition("/")[2].startswith(".")
        if member.kind in _NO_FILES or hidden or not member.name.startswith(_prefix(root)):
            continue
        if member.name.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
            raise InputError(
                f"{blob.where}: its inner archive {member.name} is compressed, and images are "
                "read in place, by offset; decompress the inner archives first"
            )
        if member.name.endswith(".tar") or is_image(member.name):
            return member.name
    under = f" under {root} (pathInArchive)" if root else ""
    raise InputError(f"{blob.where}: holds neither images nor archives of images{under}")


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

    def __init__(self, blob: Blob, root: str | None = None) -> None:
        """Takes over a blob.

        Args:
            blob: the tar.
            root: the folder in it that is the source's; None if nobody has said.
        """
        self.where = blob.where
        self._blob = blob
        self._root = root

    def _members(self) -> Iterator[Member]:
        """The members below the root."""
        prefix = _prefix(self._root)
        return (one for one in members(_whole(self._blob)) if one.name.startswith(prefix))

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
        seen: dict[str, None] = {}
        for outer in self._members():
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
            seen[class_name] = None
            notes.share = outer.offset / self._blob.size
            yield from self._scan_class(class_name, outer, notes)
        self._require_classes(seen)

    def _require_classes(self, seen: Iterable[str]) -> None:
        layout = Layout()
        for class_name in seen:
            layout.add(class_name)
        mistake = layout.mistake_without_root()
        if mistake is not None:
            training = layout.training()
            inside = "" if training is None else f"{_prefix(self._root)}{training}.tar"
            raise InputError(f"{self.where}: {mistake[0]}; {_remedy(inside)}")

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
    """The folders of the root are the classes; images may lie deeper in them.

    If nobody has said where the root is, it is the folder that holds all folders with images.
    """

    kind = "tar of folders"

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the archive."""
        folders: dict[str, str] = {}
        layout = Layout()
        prefix = _prefix(self._root)
        for member in self._members():
            name = member.name.removeprefix(prefix)
            if not _is_image(member) or "/" not in name:
                _pass_over(member, notes)
                continue
            _require_data(member, self.where)
            folder = name.rpartition("/")[0]
            layout.add(folder)
            class_name = self._class_of(folder, folders)
            notes.share = member.offset / self._blob.size
            yield Image(class_name, member.name, member.offset, member.size, member.mtime)
        self._require_classes(layout)

    def _class_of(self, folder: str, folders: dict[str, str]) -> str:
        if self._root is not None:
            return class_name_in(folder.partition("/")[0], self.where)
        class_name = folder.rpartition("/")[2]
        if folders.get(class_name) != folder:
            # Such as train/n01440764 and val/n01440764: merging them would be silent damage.
            if class_name in folders:
                layout = Layout()
                for found in (*folders.values(), folder):
                    layout.add(found)
                _, root = layout.mistake_without_root() or ("", "")
                raise InputError(
                    f"{self.where}: holds two folders called {class_name}, "
                    f"{folders[class_name]} and {folder}; {_remedy(root)}"
                )
            folders[class_name_in(class_name, self.where)] = folder
        return class_name

    def _require_classes(self, layout: Layout) -> None:
        mistake = layout.mistake_without_root() if self._root is None else layout.mistake()
        if mistake is not None:
            what, root = mistake
            inside = f"{_prefix(self._root)}{root}" if root else ""
            raise InputError(f"{self.where}: {what}; {_remedy(inside)}")


def _remedy(root: str) -> str:
    archive = "make an archive of the training images alone"
    return f"write --path-in-archive {root} (pathInArchive), or {archive}" if root else archive


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

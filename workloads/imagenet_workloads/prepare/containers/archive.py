"""The interface of archives, tar or zip: members in a blob, each at an offset.

A kind of archive lists its members without reading their data, and reads one by its offset alone:
pack knows no more. Members that are read by ranges themselves, such as the Parquet files of a zip
of Kaggle, are a set of files. A stored one is a range of the archive. A deflated one is inflated
into a file without a name in the temporary folder.
"""

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple, Protocol

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.entry_names import is_image
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.stores.blob import Blob, FileSet, Kept, Part, changed, readable
from imagenet_workloads.prepare.stores.compressed import UnnamedFile

LARGEST = 8 << 30
"""The most bytes of a deflated file."""

# Index and pack read one file after the other.
_KEPT = 2


class Kind(Enum):
    """The type of a member, as far as images need it."""

    FILE = auto()
    FOLDER = auto()
    LINK = auto()
    SPARSE = auto()
    ENCRYPTED = auto()
    UNKNOWN_COMPRESSION = auto()
    OTHER = auto()


class Member(NamedTuple):
    """One member of an archive.

    Attributes:
        name: its path, without a leading `./`; bytes that are not UTF-8 as surrogates.
        offset: the first byte of its data in a tar, of its header in a zip.
        size: the bytes of its data, decompressed.
        mtime: its modification time in nanoseconds since 1970.
    """

    name: str
    kind: Kind
    offset: int
    size: int
    mtime: int


class Archive(Protocol):
    """An archive in a blob, which it closes; its format is `tar` or `zip`."""

    format: str
    blob: Blob

    def members(self) -> Iterator[Member]:
        """Yields the members in order.

        Raises:
            InputError: the archive is cut off or damaged; the message names the byte.
        """

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of a member; may be called from several threads.

        Raises:
            InputError: no such member is there any more.
        """

    def part(self, member: Member) -> Part:
        """A member that is an archive; an `InputError` if it is compressed."""

    def inflated(self, member: Member) -> Iterator[bytes] | None:
        """The content of a compressed member; None if ranges of it can be read.

        Raises:
            InputError: while it yields: the member does not decompress, or is cut off.
        """


# Ignored under any name: folders, pipes and devices.
_NO_FILES = (Kind.FOLDER, Kind.OTHER)

_UNREADABLE = {
    Kind.LINK: (
        "is a link, which cannot be read in place",
        "make the archive again by tar --dereference --hard-dereference",
    ),
    Kind.SPARSE: (
        "is a sparse file, which cannot be read in place",
        "make the archive again by tar --dereference --hard-dereference",
    ),
    Kind.ENCRYPTED: ("is encrypted", "make the archive again without a password"),
    Kind.UNKNOWN_COMPRESSION: (
        "is compressed by another method than deflate",
        "make the archive again by zip -r -0",
    ),
}


def prefix(root: str | None) -> str:
    """The start of the names below a root."""
    return f"{root}/" if root else ""


def is_file(member: Member) -> bool:
    """Whether a member is no folder, pipe or device."""
    return member.kind not in _NO_FILES


def holds_image(member: Member) -> bool:
    """Whether a member is an image, by its name."""
    return is_file(member) and is_image(member.name)


def pass_over(member: Member, notes: Notes) -> None:
    """Counts a member that is no image."""
    if member.kind is not Kind.FOLDER:
        notes.pass_over(member.name)


def require_data(member: Member, where: str) -> None:
    """Raises an `InputError` if the member of an image cannot be read in place."""
    if member.kind in _UNREADABLE:
        what, remedy = _UNREADABLE[member.kind]
        raise InputError(f"{where}: {readable(member.name)} {what}; {remedy}")


class FilesOfArchive(FileSet):
    """Some members of an archive, with their paths there as names; it closes the archive."""

    def __init__(self, archive: Archive, members: Iterable[Member]) -> None:
        self.where = archive.blob.where
        self._archive = archive
        self._members = {member.name: member for member in members}
        self.names = sorted(self._members)
        self._inflated: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False
        for member in self._members.values():
            require_data(member, self.where)

    def open(self, name: str) -> Blob:
        """Opens a file, whose archive stays open when it is closed.

        Raises:
            InputError: it is gone since it was listed, damaged, or deflated and too large.
            StorageError: the temporary folder is full.
        """
        member = self._members.get(name)
        if member is None:
            raise changed(self.where, f"{name} is gone")
        content = self._archive.inflated(member)
        if content is None:
            return Kept(self._archive.part(member))
        with self._lock:
            if name not in self._inflated:
                self._inflated[name] = self._stored(member, content)
                if len(self._inflated) > _KEPT:
                    os.close(self._inflated.popitem(last=False)[1])
            self._inflated.move_to_end(name)
            descriptor = os.dup(self._inflated[name])
        return UnnamedFile(f"{self.where}: {readable(name)}", descriptor)

    def close(self) -> None:
        with self._lock:
            while self._inflated:
                os.close(self._inflated.popitem()[1])
            # The training and the validation images of one archive share its files.
            if not self._is_closed:
                self._is_closed = True
                self._archive.blob.close()

    def _stored(self, member: Member, content: Iterator[bytes]) -> int:
        """The descriptor of a file with the content of a member."""
        if member.size > LARGEST:
            raise InputError(
                f"{self.where}: {readable(member.name)} has {member.size} bytes and is compressed; "
                f"at most {LARGEST >> 30} GiB are decompressed; unpack the archive on a claim"
            )
        folder = Path(tempfile.gettempdir())
        with files.storage_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
            for chunk in content:
                file.write(chunk)
            file.flush()
            return os.dup(file.fileno())

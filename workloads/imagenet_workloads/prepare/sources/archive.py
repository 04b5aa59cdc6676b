"""The interface of archives, tar or zip: members in a blob, each at an offset.

A kind of archive lists its members without reading their data, and reads one by its offset alone:
pack knows no more.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple, Protocol

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.source import Notes, is_image
from imagenet_workloads.prepare.stores.blob import Blob, Part, readable


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
        kind: its type.
        offset: where it is in the blob: the first byte of its data in a tar, of its header in a
            zip.
        size: the bytes of its data, decompressed.
        mtime: its modification time in nanoseconds since 1970.
    """

    name: str
    kind: Kind
    offset: int
    size: int
    mtime: int


class Archive(Protocol):
    """An archive in a blob, which it closes.

    Attributes:
        format: `tar` or `zip`.
        blob: the blob.
    """

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

    def part(self, member: Member) -> "Part":
        """A member that is an archive.

        Raises:
            InputError: it is compressed.
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
    """Checks that the member of an image contains the bytes.

    Raises:
        InputError: it is a link, sparse, encrypted, or of an unknown compression.
    """
    if member.kind in _UNREADABLE:
        what, remedy = _UNREADABLE[member.kind]
        raise InputError(f"{where}: {readable(member.name)} {what}; {remedy}")

"""What index and pack know of a source: a scan that yields images, and a read by offset."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from imagenet_workloads.errors import InputError

# What OpenCV and libjpeg read. Other files beside the images are left alone, and counted.
IMAGE_SUFFIXES = frozenset(
    (".jpeg", ".jpg", ".jpe", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm")
)


class Image(NamedTuple):
    """One image as a scan finds it.

    Attributes:
        class_name: the class; empty where the source is flat.
        name: unique within the source, as a person would look for it.
        offset: of its first byte in the source's file; 0 where each image is a file of its own.
        size: in bytes.
        mtime: its own time of change in nanoseconds since 1970, as the source records it.
    """

    class_name: str
    name: str
    offset: int
    size: int
    mtime: int


@dataclass
class Notes:
    """What a scan tells beside the images: what it passed over, and how far it is.

    Attributes:
        ignored: files whose names are not those of images.
        empty: classes without any image.
        share: how much of the source lies before the image that was yielded last, 0 to 1; 0 as long
            as that is not known.
    """

    ignored: int = 0
    empty: list[str] = field(default_factory=list)
    share: float = 0.0


class Source(Protocol):
    """A set of images that can be listed in a stable order and read one by one."""

    @property
    def kind(self) -> str:
        """Names the kind in plans and messages."""

    @property
    def where(self) -> str:
        """Names the source in messages: its path."""

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields every image, always in the same order, holding none.

        Raises:
            InputError: the source cannot be listed as a whole (truncated, unreadable, ambiguous).
        """

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image that a scan found; may be called from several threads.

        Raises:
            InputError: the source is not as it was when it was scanned.
            PermissionError: this one image may not be read.
        """

    def close(self) -> None:
        """Frees what the source holds open."""


def is_image(name: str) -> bool:
    """Whether a path's last part is named like an image; hidden files (`._x.jpg`) are not."""
    base = name.rpartition("/")[2]
    stem, dot, suffix = base.rpartition(".")
    return bool(dot and stem) and base[0] != "." and f".{suffix.lower()}" in IMAGE_SUFFIXES


def readable(name: str) -> str:
    """A name as it can be printed: bytes that are not UTF-8 as escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def changed(where: str, what: str) -> InputError:
    """The error for a source that is no longer what the plan describes; the caller raises it."""
    return InputError(
        f"{readable(where)}: {readable(what)}: the source has changed since it was "
        "indexed; run imagenet-index again"
    )


def class_name_in(text: str, where: str) -> str:
    """Checks that a folder's or archive's name can be a class name, and returns it.

    Raises:
        InputError: it is not UTF-8, or holds control characters.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{where}: the class name {text!r} is not UTF-8; rename it") from None
    if not text.isprintable():
        raise InputError(f"{where}: the class name {text!r} holds control characters; rename it")
    return text

"""What index and pack know of sources: kinds, each with its options, and lists of images.

Nothing here assumes a file: a source lists images and reads ranges of bytes, and a `Blob` is
whatever has ranges.
"""

import re
from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields

# What OpenCV and libjpeg read. Other files beside the images are left alone, and counted.
IMAGE_SUFFIXES = frozenset(
    (".jpeg", ".jpg", ".jpe", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm")
)

OTHER = "other"
_MOST_SUFFIXES = 15
_SUFFIX = re.compile(r"(?:\.tar)?\.[a-z0-9_+-]{1,15}", re.ASCII)


class Image(NamedTuple):
    """One image as a scan finds it.

    Attributes:
        class_name: the class; empty where the source is flat.
        name: unique within the source, as a person would look for it.
        offset: of its first byte in the source's blob; 0 if each image is a blob.
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
        ignored: files that are not named like images, pipes and devices; `pass_over` counts them.
        suffixes: the same by suffix: `hidden`, `none`, and `other` beyond the first few.
        empty: classes without any image.
        share: how much of the source lies before the image that was yielded last, 0 to 1; 0 as long
            as that is not known.
    """

    ignored: int = 0
    suffixes: Counter[str] = field(default_factory=Counter)
    empty: list[str] = field(default_factory=list)
    share: float = 0.0

    def pass_over(self, name: str) -> None:
        """Counts a file that is no image."""
        self.ignored += 1
        suffix = _suffix(name)
        if suffix not in self.suffixes and len(self.suffixes) >= _MOST_SUFFIXES:
            suffix = OTHER
        self.suffixes[suffix] += 1


class Blob(Protocol):
    """Bytes of which ranges can be read: a file, an object in a bucket, a page of a server."""

    @property
    def where(self) -> str:
        """The name in messages: a path or a URL."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range, fewer at the end; may be called from several threads.

        Raises:
            OSError: they cannot be read.
        """

    def close(self) -> None:
        """Frees what the blob holds open."""


class Source(ABC):
    """A set of images that can be listed in a stable order and read one by one.

    Attributes:
        kind: its name in plans and messages.
        where: its name in messages: a path or a URL.
    """

    kind: ClassVar[str]
    where: str

    @abstractmethod
    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields every image, always in the same order, holding none.

        Raises:
            InputError: the source cannot be listed as a whole (truncated, unreadable, ambiguous).
        """

    @abstractmethod
    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image that a scan found; may be called from several threads.

        Raises:
            InputError: the source is not as it was when it was scanned.
            PermissionError: this one image may not be read.
        """

    def close(self) -> None:  # noqa: B027
        """Frees what the source holds open; nothing by default."""

    def to_document(self) -> dict[str, Any]:
        """What the plan says of the source, as JSON values: its kind, and what opens it again."""
        return {"kind": self.kind}


@dataclass(frozen=True)
class Validation:
    """Validation images apart from the training images.

    Attributes:
        source: flat.
        labels: its label file.
    """

    source: Source
    labels: Path


class SourceKind(ABC):
    """One kind of source: its options, and how it is opened. `sources.KINDS` lists them.

    Modules of kinds are imported for their options alone, so they import OpenCV where they use it.

    Attributes:
        name: in an ImageNetJob, the field of spec.dataset.source.
        options: its options in messages, such as `--source`.
        planned_as: the `kind` of each source that it opens, as plans have it.
    """

    name: ClassVar[str]
    options: ClassVar[str]
    planned_as: ClassVar[tuple[str, ...]]

    @abstractmethod
    def add_index_options(self, parser: ArgumentParser) -> None:
        """Adds the options by which imagenet-index opens a source."""

    def add_pack_options(self, parser: ArgumentParser) -> None:  # noqa: B027
        """Adds those by which imagenet-pack opens it again; the plan may do without."""

    @abstractmethod
    def is_given(self, parsed: Namespace) -> bool:
        """Whether any option names a source of this kind."""

    def is_given_again(self, parsed: Namespace) -> bool:
        """Whether an option of imagenet-pack does; always, if its plan needs no option."""
        return True

    def mistake(self, parsed: Namespace) -> str | None:
        """What is wrong with the options together, if anything is."""
        return None

    @abstractmethod
    def open(self, parsed: Namespace) -> Source:
        """Opens the source that imagenet-index was given.

        Raises:
            InputError: there is no such source, or it is of no known layout.
        """

    def open_validation(self, parsed: Namespace) -> Validation | None:
        """Opens the validation images that imagenet-index was given; None without any."""
        return None

    @abstractmethod
    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        """Opens a source again for imagenet-pack.

        Args:
            planned: what `Source.to_document` said.
            parsed: the options of imagenet-pack.

        Raises:
            InputError: an option is missing, or the source is not as planned.
        """


def is_image(name: str) -> bool:
    """Whether a path's last part is named like an image; hidden files (`._x.jpg`) are not."""
    base = name.rpartition("/")[2]
    stem, dot, suffix = base.rpartition(".")
    return bool(dot and stem) and base[0] != "." and f".{suffix.lower()}" in IMAGE_SUFFIXES


def _suffix(name: str) -> str:
    """The suffix of a file that is no image, for people; `.tar.gz` is one."""
    base = name.rpartition("/")[2].lower()
    if base.startswith("."):
        return "hidden"
    stem, dot, suffix = base.rpartition(".")
    if not dot:
        return "none"
    found = (".tar" if stem.endswith(".tar") else "") + dot + suffix
    return found if _SUFFIX.fullmatch(found) else OTHER


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

"""The interface of sources for index and pack: lists of images, each of which can be read.

Nothing here assumes a file. A container gives a `Listing` of its images by their paths; a layout
makes a `Source` of it, whose images have classes and splits.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from imagenet_workloads.dataset import Dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.stores.blob import LabelFile
from imagenet_workloads.prepare.stores.remote import Limit

# In a class's name: control characters, ends of lines, replaced bytes, and what turns text around.
_FORBIDDEN = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ufffd\\u202a-\\u202e\\u2066-\\u2069]"
)

OTHER = "other"
_MOST_SUFFIXES = 15
_SUFFIX = re.compile(r"(?:\.tar)?\.[a-z0-9_+-]{1,15}", re.ASCII)


class Image(NamedTuple):
    """One image in a scan."""

    class_name: str  # the class; empty in a flat source
    name: str  # unique within the source; a path that a person can find
    offset: int  # its first byte in the source's blob; 0 if each image is a blob
    size: int  # in bytes
    # Its modification time in the source, in nanoseconds since 1970; without one, a checksum of its
    # bytes.
    mtime: int


class Location(NamedTuple):
    """Where an image of a scan is: the arguments of `Source.read`."""

    name: str
    offset: int
    size: int


class ReadingEstimate(NamedTuple):
    """What listing a source on a server takes, or reading its images."""

    requests: int
    bytes: int
    seconds: int  # at the speed of a sample

    def __str__(self) -> str:
        return f"{self.requests} requests, {self.bytes / 2**20:.1f} MiB and {self.seconds} s"

    def to_document(self) -> dict[str, int]:
        return {
            "requests": self.requests,
            "bytes": self.bytes,
            "estimatedSeconds": self.seconds,
        }


class Surveyor(Protocol):
    """What gets the entries of a listing that are no images, by their paths."""

    unlisted: list[str]  # folders of splits that are left out by their names, and were not listed
    unlabelled: str  # an image beside which there is a JSON without its class; empty without one
    beside: list[str]  # images beside archives of images, which are in no split and no class

    def add_file(self, path: str) -> None:
        """Adds a file that is no image."""

    def add_hidden(self, path: str) -> None:
        """Adds a hidden folder, or an entry in one."""

    def add_archive(self, path: str) -> None:
        """Says that a folder is an archive."""


@dataclass
class Notes:
    """The state of a scan: the files that it ignored, and its progress."""

    # Files that are not named like images, pipes and devices; `pass_over` counts them.
    ignored: int = 0
    # The same by suffix, or `hidden`, `none`, and `other` after the first few.
    suffixes: Counter[str] = field(default_factory=Counter)
    empty: list[str] = field(default_factory=list)  # classes without any image
    # The share of the source before the last yielded image, 0 to 1; 0 while it is unknown.
    share: float = 0.0
    # Of a source whose layout is not yet decided; it gets what is listed besides images.
    survey: Surveyor | None = None
    # Images left out by each named rule, with the path of one.
    left_out: dict[str, tuple[int, str]] = field(default_factory=dict)
    # Called with the images that a listing finds before any is yielded, and the share.
    report: Callable[[int, float], None] | None = None
    reported: bool = False  # whether it was called

    def pass_over(self, path: str) -> None:
        self._count(_suffix(path), 1)
        if self.survey is not None:
            self.survey.add_file(path)

    def hide(self, path: str) -> None:
        """Counts a hidden folder, by the path of it or of an entry in it."""
        if self.survey is not None:
            self.survey.add_hidden(path)

    def add(self, other: "Notes") -> None:
        """Add what the scan of a part of the source ignored."""
        for suffix, files in other.suffixes.items():
            self._count(suffix, files)
        self.empty += other.empty

    def _count(self, suffix: str, files: int) -> None:
        self.ignored += files
        if suffix not in self.suffixes and len(self.suffixes) >= _MOST_SUFFIXES:
            suffix = OTHER
        self.suffixes[suffix] += files


LARGEST_ANNOTATION = 1 << 16
"""The most bytes of an annotation; those of ILSVRC have at most a few thousand."""


class Annotations(Protocol):
    """The annotations of images, one file for each image; iterates over names and contents.

    A name ends with CLASS/NAME.xml, or val/NAME.xml for a validation image. A file that is too
    large is cut, after one byte too many.
    """

    @property
    def where(self) -> str:
        """The name in messages."""

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yields the name and the content of each."""


class Journal:
    """What is listed of a source of many archives; this one keeps nothing."""

    def listed(self, archive: str, scan: Callable[[Notes], str]) -> tuple[str, Notes]:
        """The images of an archive as JSON, and the notes of their scan."""
        notes = Notes()
        return scan(notes), notes


class Source(ABC):
    """A set of images that can be listed in a stable order and read one by one."""

    kind: str  # its kind in plans and messages
    where: str  # its name in messages: a path or a URL without query
    # What its entry in the plan has besides kind and version, to find it below what the options
    # name; JSON values.
    plan_fields: Mapping[str, Any] = {}
    # Opens the validation images beside it; None without any.
    own_validation: "Callable[[], Validation | None] | None" = None
    # The file beside it with the words of its classes; None without.
    own_words: LabelFile | None = None
    own_annotations: Annotations | None = None  # the annotations beside it; None without
    reads_at_once: int = 1  # the reads that may wait for a network at the same time; 1 for a volume
    # Whether reading the images in the order of their names and offsets takes far less than in any
    # other order.
    reads_in_order: bool = False
    # By what a change since the scan is noticed, as JSON values; empty for a volume.
    version: Mapping[str, Any] = MappingProxyType({})
    listing: ReadingEstimate | None = None  # what the scan takes; None if it needs no estimate
    # What reading all images in one pod takes; None likewise.
    packing: ReadingEstimate | None = None
    # On its requests; None if they need none, as on a volume or in a cache.
    limit: Limit | None = None
    sealed: Dataset | None = None  # the sealed dataset of which it is a split; None for raw images
    # Where the scan of a source of many archives finds those that are listed already.
    journal: Journal = Journal()
    # How its images are read, in a sentence, once it is listed; empty for a fixed layout.
    said: str = ""
    warnings: Sequence[str] = ()  # what may be meant otherwise
    scratch: Path | None = None  # the folder for what the scan keeps; None for the temporary one

    @property
    def identity(self) -> Mapping[str, Any] | None:
        """By what the same source is recognized, as JSON values; empty for a file on a volume.

        None for one whose scan does not use a journal.
        """
        return None

    @property
    def lists_at_once(self) -> int:
        """The requests that `scan` sends at the same time."""
        return 1

    @abstractmethod
    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields every image, always in the same order; keeps none.

        Raises:
            InputError: the source cannot be listed as a whole (truncated, unreadable, ambiguous).
        """

    def scan_in_turn(self, notes: Notes) -> Iterator[Image]:
        return self.scan(notes)

    def require_classes(self) -> None:  # noqa: B027
        """Checks, after the scan, that its images are of several classes; one may be a mistake."""

    @abstractmethod
    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image of a scan; may be called from several threads.

        Raises:
            InputError: the source has changed since the scan.
            PermissionError: this process may not read this image.
        """

    def requests_to_read(self, locations: Iterable[Location]) -> tuple[int, int]:
        """The requests by which pack reads the images of a shard, and the bytes of the answers."""
        sizes = [location.size for location in locations]
        return len(sizes), sum(sizes)

    def close(self) -> None:  # noqa: B027
        """Closes open files; by default there are none."""

    def to_document(self) -> dict[str, Any]:
        """What the plan says of the source, as JSON values: its kind, and what opens it again."""
        version = {"version": dict(self.version)} if self.version else {}
        return {"kind": self.kind, **self.plan_fields, **version}


class PlannedSource(Source):
    """The images of a plan, which are read and not listed."""

    def __init__(
        self,
        kind: str,
        where: str,
        read: Callable[[str, int, int], bytes],
        close: Callable[[], None] = lambda: None,
        reads_at_once: int = 1,
    ) -> None:
        self.kind = kind
        self.where = where
        self.reads_at_once = reads_at_once
        self._read = read
        self._close = close

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Is not called: the plan has the images."""
        raise NotImplementedError

    def read(self, name: str, offset: int, size: int) -> bytes:
        return self._read(name, offset, size)

    def close(self) -> None:
        self._close()


class Naming(NamedTuple):
    """How the images of a split are named by their paths in a listing."""

    removed: str = ""  # the start of the paths that the names lack
    added: str = ""  # what the names have in its place

    def path(self, name: str) -> str:
        return f"{self.removed}{name.removeprefix(self.added)}"


class Listing(Source):
    """All images of a folder, archive or bucket by their paths, before their layout is decided.

    Its scan yields each with the label beside it as its class, mostly none.
    """

    start: str = ""  # the folder that is listed, as the start of all paths; empty for the root
    below: tuple[str, str, str] = ("", "", "")  # what names a folder of it, as for `Contents`
    strips: bool = False  # whether the names of a split's images begin below its folder
    remedy: str = ""  # for images in no folders: what to write if the root is too low

    def file(self, path: str) -> LabelFile | None:
        """A file beside the images, after the listing; None if there is none."""
        return None

    def place(self, folder: str) -> str:
        """A folder of it in messages."""
        return f"{self.where}: {folder}" if folder else self.where

    def naming(self, roots: Sequence[str], *, has_labels: bool) -> "Naming":
        """How the images of a split in these folders are named, after the listing."""
        folder = roots[0] if len(roots) == 1 else self.start
        return Naming(f"{folder}/" if folder and self.strips else "")

    def fields_of_split(self, roots: Sequence[str]) -> Mapping[str, Any]:
        """What the plan says of the folders of a split, if the names of its images are paths."""
        return {}

    def annotations(self, folder: str) -> Annotations | None:
        """The annotations in a folder; None if this kind of source has none."""
        return None

    def kind_of(self, *, is_flat: bool, has_labels: bool) -> str:
        """The kind in plans of its images, after the listing."""
        return self.kind


@dataclass(frozen=True)
class Validation:
    """Validation images in a separate source."""

    source: Source  # of the images; flat if they have labels
    labels: Path | LabelFile | None  # its label file; None if the classes are those of the source


def _suffix(name: str) -> str:
    """The suffix of a file that is not an image, for messages; `.tar.gz` is one suffix."""
    base = name.rpartition("/")[2].lower()
    if base.startswith("."):
        return "hidden"
    stem, dot, suffix = base.rpartition(".")
    if not dot:
        return "none"
    found = (".tar" if stem.endswith(".tar") else "") + dot + suffix
    return found if _SUFFIX.fullmatch(found) else OTHER


def class_name_in(text: str, where: str) -> str:
    """Checks that a folder's or archive's name can be a class name, and returns it.

    Raises:
        InputError: it is not UTF-8, or holds control characters.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{where}: the class name {text!r} is not UTF-8; rename it") from None
    if wrong := _FORBIDDEN.search(text):
        raise InputError(
            f"{where}: the class name {text!r} holds control characters ({wrong[0]!r}); rename it"
        )
    return text

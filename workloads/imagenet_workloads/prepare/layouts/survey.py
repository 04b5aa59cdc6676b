"""What a source holds: by the names of its files, and by its listing.

CIFAR and Parquet files hold images without being images or archives of them; a source is of one of
these kinds, or refused. A survey has a node for each folder with images and none for an image, so
it is small. An archive among archives is a folder with the archive's name.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.containers import parquet
from imagenet_workloads.prepare.entry_names import TABLES, is_hidden, is_image
from imagenet_workloads.prepare.layouts import choice as choices
from imagenet_workloads.prepare.layouts import cifar
from imagenet_workloads.prepare.layouts.choice import Choice
from imagenet_workloads.prepare.stores.blob import LabelFile, readable

# Of Hugging Face's imagefolder: a table about the images beside it.
_METADATA = "metadata.parquet"
# The download of CIFAR, which may lie beside what was unpacked from it.
_CIFAR_ARCHIVE = re.compile(r"cifar-100?-(?:python|binary)\.(?:tar|tar\.gz|tgz)")
# More tables than these are annotations of single images.
_MOST_TABLES, _MOST_OF_A_FOLDER = 1000, 40
# With more folders, images count for the folder above theirs.
MOST_FOLDERS = 500_000


def is_download_of_cifar(name: str) -> bool:
    """Whether a file is named like the archive from which CIFAR is unpacked."""
    return _CIFAR_ARCHIVE.fullmatch(name) is not None


@dataclass
class Contents:
    """The files of a source, as far as they say how it is read."""

    where: str
    # What names a folder of it: the option, what precedes the folder in its value, and the field of
    # the manifest; such as `--source`, `/raw/`, `path`.
    below: tuple[str, str, str] = ("", "", "")
    image: str = ""  # the path of an image; empty without one
    archives: list[str] = field(default_factory=list)
    parquet: list[str] = field(default_factory=list)
    # The files with names of CIFAR's in each folder.
    of_cifar: dict[str, set[str]] = field(default_factory=dict)

    def add(self, path: str, archive_suffixes: Collection[str] = ()) -> None:
        folder, _, name = path.rpartition("/")
        if is_image(path):
            self.image = self.image or path
        elif name.endswith(parquet.SUFFIX):
            self.parquet.append(path)
        elif name in cifar.FILES:
            self.of_cifar.setdefault(folder, set()).add(name)
        elif name.endswith(tuple(archive_suffixes)) and not is_download_of_cifar(name):
            self.archives.append(path)

    def cifar_folders(self) -> list[str]:
        """The folders with all files of a version of CIFAR."""
        return sorted(folder for folder, names in self.of_cifar.items() if cifar.may_be(names))

    def layout(self, choice: Choice) -> str:
        """`cifar` or `parquet` if that is what it holds; empty for images and archives of them.

        Raises:
            InputError: it holds several, or not what was chosen.
        """
        folders = self.cifar_folders()
        files = [one for one in self.parquet if not self.image or not one.endswith(_METADATA)]
        found = {choices.CIFAR: bool(folders), choices.PARQUET: bool(files)}
        if choice.layout in found:
            if not found[choice.layout]:
                raise InputError(
                    f"{self.where}: is no {choice.layout} (--layout, source.layout): it holds "
                    f"{self._described()}; write another layout, or none"
                )
        elif choice.layout or choice.has_labels:
            if any(found.values()) and not (self.image or self.archives):
                wanted = choice.layout or choices.LABELS
                raise InputError(
                    f"{self.where}: is no {wanted} (source.layout, source.labels): it holds "
                    f"{self._described()}; remove them"
                )
            return ""
        else:
            holds = [name for name, is_there in found.items() if is_there]
            is_one = len(holds) + bool(self.image or self.archives) <= 1
            if not is_one:
                others = choices.CLASS_FOLDERS if self.image or self.archives else holds[1]
                raise InputError(
                    f"{self.where}: holds {self._described()}, and which of them is the data set "
                    f"is not clear; write --layout {holds[0]} (source.layout) or "
                    f"--layout {others}, or name the folder of one ({self.below[2]})"
                )
            if not holds:
                return ""
        layout = choice.layout or next(name for name, is_there in found.items() if is_there)
        if layout == choices.CIFAR and len(folders) > 1:
            option, start, name = self.below
            lines = " or ".join(f"{option} {start}{folder}" for folder in folders)
            raise InputError(
                f"{self.where}: holds CIFAR in {len(folders)} folders; write {lines} ({name})"
            )
        return layout

    def _described(self) -> str:
        found = []
        for folder in self.cifar_folders():
            found.append(f"the files of CIFAR ({readable(folder) or 'at its root'})")
        for paths, one, many in (
            (self.parquet, "a Parquet file", "Parquet files"),
            (self.archives, "an archive", "archives"),
        ):
            if paths:
                what = one if len(paths) == 1 else f"{len(paths)} {many}"
                found.append(f"{what} (such as {readable(paths[0])})")
        if self.image:
            found.append(f"images (such as {readable(self.image)})")
        return ", ".join(found) or "no images, archives or Parquet files"


@dataclass(slots=True, eq=False)
class Node:
    """A folder with images."""

    path: str  # from the root, which has an empty path
    is_archive: bool = False  # whether it is an archive among archives
    images: int = 0  # directly in it
    labelled: int = 0  # images with a label of their own beside them, directly in it
    digest: int = 0  # of the names and sizes of the images directly in it, in any order
    example: str = ""  # the path of one of its images
    below: "dict[str, Node]" = field(default_factory=dict)  # its folders with images, by name

    @property
    def total(self) -> int:
        return sum(one.images for one in self.walk())

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def at(self, path: str) -> "Node | None":
        node: Node | None = self
        for part in filter(None, path.split("/")):
            node = node.below.get(part) if node is not None else None
        return node

    def walk(self) -> "Iterator[Node]":
        """Yields the node and all below it; folders may be nested as deep as paths go."""
        nodes = [self]
        while nodes:
            node = nodes.pop()
            yield node
            nodes += node.below.values()

    def fingerprint(self) -> int:
        """Of the paths, names and sizes of all images below it."""
        start = len(self.path)
        return sum(hash((node.path[start:], node.digest)) for node in self.walk())

    def folders(self) -> int:
        return sum(bool(one.images) for one in self.walk()) - bool(self.images)

    def depth(self) -> int:
        return max(one.path.count("/") for one in self.walk()) - self.path.count("/")

    def labels(self) -> int:
        return sum(one.labelled for one in self.walk())

    def any_example(self) -> str:
        """The path of one image in it or below it; empty without any."""
        return next((one.example for one in self.walk() if one.example), "")

    def archives(self) -> "list[Node]":
        """The archives below it, if images are in them or beside them; not those in archives."""
        found: list[Node] = []
        nodes = [self]
        while nodes:
            node = nodes.pop()
            if node.images and node is not self:
                return []
            found += (one for one in node.below.values() if one.is_archive and one.total)
            nodes += (one for one in reversed(node.below.values()) if not one.is_archive)
        return found


class Survey:
    """The folders and tables of a source."""

    def __init__(
        self,
        where: str,
        file: Callable[[str], LabelFile | None] = lambda path: None,
        images: Callable[[], Iterator[tuple[str, int, str]]] = lambda: iter(()),
    ) -> None:
        """`images` yields path, size and label of each image, as often as it is called."""
        self.where = where
        self.root = Node("")
        self.tables: list[str] = []  # the paths of files that may be tables of labels
        self.hidden: dict[str, None] = {}  # one path for each hidden folder that holds entries
        # Folders of splits that are left out by their names, and were not listed.
        self.unlisted: list[str] = []
        # An image beside which there is a JSON without its class; empty without one.
        self.unlabelled = ""
        # Images beside archives of images, which are in no split and no class.
        self.beside: list[str] = []
        self.contents = Contents(where)  # its files that are no images but hold some
        self.remedy = ""  # for images in no folders; what to write if the root is too low
        self.start = ""  # the folder that is listed; empty for the root
        # A folder of the source in messages.
        self.place: Callable[[str], str] = lambda path: f"{where}: {path}" if path else where
        self.file = file
        self.images = images
        self._of_folder: dict[str, int] = {}
        self._last: tuple[str, list[Node]] = ("", [self.root])
        self._nodes = 1

    def add_image(self, path: str, size: int, label: str = "") -> None:
        folder, _, name = path.rpartition("/")
        if folder != self._last[0] or not self._last[1]:
            self._last = folder, self._enter(folder)
        node = self._last[1][-1]
        node.images += 1
        node.labelled += bool(label)
        node.digest += hash((name, size))
        if not node.example:
            node.example = path

    def add_file(self, path: str) -> None:
        """Adds a file that is no image, if it may be a table or hold images."""
        self.contents.add(path)
        if not path.lower().endswith(TABLES) or len(self.tables) >= _MOST_TABLES:
            return
        folder = path.rpartition("/")[0]
        number = self._of_folder[folder] = self._of_folder.get(folder, 0) + 1
        if number <= _MOST_OF_A_FOLDER:
            self.tables.append(path)

    def add_hidden(self, path: str) -> None:
        parts = path.split("/")
        first = next(number for number, part in enumerate(parts) if is_hidden(part))
        if len(self.hidden) < MOST_FOLDERS:
            self.hidden["/".join(parts[: first + 1])] = None

    def add_archive(self, path: str) -> None:
        """Says that a folder is an archive, which may hold nothing."""
        self._enter(path)[-1].is_archive = True

    def mark_archives(self, others: "Collection[Survey]") -> None:
        for node in self.root.walk():
            if node.is_archive:
                for other in others:
                    found = other.root.at(node.path)
                    if found is not None:
                        found.is_archive = True

    def require_file(self, path: str, field: str) -> LabelFile:
        """A file of the source that the user names, from its root or as the end of its path."""
        ends = [one for one in self.tables if one.endswith(f"/{path}")]
        file = self.file(path) or (self.file(ends[0]) if len(ends) == 1 else None)
        if file is None:
            known = ", ".join(self.tables[:5]) or "none"
            raise InputError(f"{self.where}: has no file {path} ({field}); its tables are {known}")
        return file

    def _enter(self, folder: str) -> list[Node]:
        nodes = [self.root]
        for part in folder.split("/") if folder else ():
            node = nodes[-1]
            below = node.below.get(part)
            if below is None:
                if self._nodes >= MOST_FOLDERS:
                    break
                self._nodes += 1
                path = f"{node.path}/{part}" if node.path else part
                below = node.below[part] = Node(path)
            nodes.append(below)
        return nodes

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
    """The files of a source, as far as they say how it is read.

    Attributes:
        where: the source in messages.
        below: what names a folder of it: the option, what precedes the folder in its value, and
            the field of the manifest; such as `--source`, `/raw/`, `path`.
        image: the path of an image; empty without one.
        archives: the paths of archives.
        parquet: the paths of Parquet files.
        of_cifar: the files with names of CIFAR's in each folder.
    """

    where: str
    below: tuple[str, str, str] = ("", "", "")
    image: str = ""
    archives: list[str] = field(default_factory=list)
    parquet: list[str] = field(default_factory=list)
    of_cifar: dict[str, set[str]] = field(default_factory=dict)

    def add(self, path: str, archive_suffixes: Collection[str] = ()) -> None:
        """Adds a file that is not hidden.

        Args:
            path: of the file.
            archive_suffixes: the suffixes of archives of images.
        """
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
        """What it holds, with an example of each."""
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
    """A folder with images.

    Attributes:
        path: from the root, which has an empty path.
        is_archive: whether it is an archive among archives.
        images: directly in it.
        labelled: images with a label of their own beside them, directly in it.
        digest: of the names and sizes of the images directly in it, in any order.
        example: the path of one of its images.
        below: its folders with images, by name.
    """

    path: str
    is_archive: bool = False
    images: int = 0
    labelled: int = 0
    digest: int = 0
    example: str = ""
    below: "dict[str, Node]" = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The images in it and below it."""
        return sum(one.images for one in self.walk())

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    def at(self, path: str) -> "Node | None":
        """The node at a path below this one."""
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
        """The folders below it that hold images themselves."""
        return sum(bool(one.images) for one in self.walk()) - bool(self.images)

    def depth(self) -> int:
        """The levels of folders below it."""
        return max(one.path.count("/") for one in self.walk()) - self.path.count("/")

    def labels(self) -> int:
        """The images in it or below it with a label beside them."""
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
    """The folders and tables of a source.

    Attributes:
        where: the source in messages.
        root: the folder above all.
        tables: the paths of files that may be tables of labels.
        hidden: one path for each hidden folder that holds entries.
        unlisted: folders of splits that are left out by their names, and were not listed.
        unlabelled: an image beside which there is a JSON without its class; empty without one.
        beside: images beside archives of images, which are in no split and no class.
        contents: its files that are no images but hold some.
        start: the folder that is listed; empty for the root.
        remedy: for images in no folders; what to write if the root is too low.
        place: a folder of the source in messages.
    """

    def __init__(
        self,
        where: str,
        file: Callable[[str], LabelFile | None] = lambda path: None,
        images: Callable[[], Iterator[tuple[str, int, str]]] = lambda: iter(()),
    ) -> None:
        """Starts empty.

        Args:
            where: the source in messages.
            file: opens a file of the source by its path; None if there is none.
            images: the path, size and label of each image, as often as it is called.
        """
        self.where = where
        self.root = Node("")
        self.tables: list[str] = []
        self.hidden: dict[str, None] = {}
        self.unlisted: list[str] = []
        self.unlabelled = ""
        self.beside: list[str] = []
        self.contents = Contents(where)
        self.remedy = ""
        self.start = ""
        self.place: Callable[[str], str] = lambda path: f"{where}: {path}" if path else where
        self.file = file
        self.images = images
        self._of_folder: dict[str, int] = {}
        self._last: tuple[str, list[Node]] = ("", [self.root])
        self._nodes = 1

    def add_image(self, path: str, size: int, label: str = "") -> None:
        """Adds an image."""
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
        """Adds a hidden folder, or an entry in one."""
        parts = path.split("/")
        first = next(number for number, part in enumerate(parts) if is_hidden(part))
        if len(self.hidden) < MOST_FOLDERS:
            self.hidden["/".join(parts[: first + 1])] = None

    def add_archive(self, path: str) -> None:
        """Says that a folder is an archive, which may hold nothing."""
        self._enter(path)[-1].is_archive = True

    def mark_archives(self, others: "Collection[Survey]") -> None:
        """Marks the archives of this survey in those of a part of its images."""
        for node in self.root.walk():
            if node.is_archive:
                for other in others:
                    found = other.root.at(node.path)
                    if found is not None:
                        found.is_archive = True

    def require_file(self, path: str, field: str) -> LabelFile:
        """A file of the source that the user names, from its root or as the end of its path.

        Raises:
            InputError: there is none.
        """
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

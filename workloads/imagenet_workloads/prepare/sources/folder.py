"""The files of a folder: every image below it, by its path."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from imagenet_workloads import regular_files
from imagenet_workloads.prepare.sources.layouts.survey import is_hidden
from imagenet_workloads.prepare.sources.source import (
    Annotations,
    Image,
    Listing,
    Notes,
    Source,
    is_image,
)
from imagenet_workloads.prepare.sources.tree_annotations import AnnotationsInFolder
from imagenet_workloads.prepare.stores.blob import LabelFile
from imagenet_workloads.prepare.stores.volume import (
    Links,
    file_below,
    names_in,
    read_image,
    sorted_names,
)

KIND, FLAT = "folder of folders", "flat folder"

# The levels whose names are counted first, to tell the share.
_COUNTED = 3


class FolderListing(Listing):
    """Every image below a folder. Holds some names of one folder at a time."""

    strips = True

    def __init__(self, root: Path, start: str = "") -> None:
        """Reads nothing yet.

        Args:
            root: the folder from which paths are.
            start: the folder to list, from there; links out of it are refused.
        """
        self.kind = KIND
        self.start = start
        self.where = str(root / start)
        self.below = "--source", f"{root}/", "path"
        self.remedy = f"write --source {(root / start).absolute().parent} (path), or "
        self._top = root
        self._root = root / start
        self._real_root = os.path.realpath(self._root)

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in an order that depends on their names alone."""
        links = Links(self._root)
        prefix = f"{self.start}/" if self.start else ""
        # The folders on the way: their real path, names, and the share of the source they have.
        below: list[tuple[str | None, Iterator[tuple[str, tuple[float, float]]]]] = [
            (None, self._named(self._root, "", 0, (0.0, 1.0)))
        ]
        found: list[bool] = [False]
        folders: list[str] = [""]
        while below:
            real_path, paths = below[-1]
            name, span = next(paths, ("", (0.0, 0.0)))
            if not name:
                below.pop()
                folder = folders.pop()
                has_images = found.pop()
                if found:
                    found[-1] |= has_images
                    if not has_images:
                        notes.empty.append(prefix + folder)
                continue
            notes.share = min(1.0, span[0])
            path, base = f"{self._root}/{name}", name.rpartition("/")[2]
            if is_hidden(base) and regular_files.is_folder(Path(path)):
                notes.hide(prefix + name)
                continue
            named_like_image = is_image(name)
            status = None if base.startswith(".") else links.look(path, named_like_image)
            if status is not None and stat.S_ISDIR(status.st_mode):
                if self._is_annotations(name):
                    notes.pass_over(name)
                    continue
                entered = links.enter(path, real_path)
                below.append((entered, self._named(Path(path), f"{name}/", len(below), span)))
                found.append(False)
                folders.append(name)
            elif status is not None and named_like_image and stat.S_ISREG(status.st_mode):
                found[-1] = True
                yield Image("", prefix + name, 0, status.st_size, status.st_mtime_ns)
            else:
                notes.pass_over(prefix + name)

    def _named(
        self, folder: Path, prefix: str, depth: int, span: tuple[float, float]
    ) -> Iterator[tuple[str, tuple[float, float]]]:
        """The paths in a folder, each with the share before it and after it."""
        start, end = span
        total = sum(1 for _ in names_in(folder)) if depth < _COUNTED else 0
        step = (end - start) / max(1, total) if total else 0.0
        for number, name in enumerate(sorted_names(folder)):
            place = start + number * step
            yield prefix + name, (place, place + step)

    def _is_annotations(self, name: str) -> bool:
        """Whether a folder is that of Kaggle's annotations, which has no images."""
        above, _, base = name.rpartition("/")
        return base == "Annotations" and (self._root / above / "Data" / "CLS-LOC").is_dir()

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return read_image(self._top, self._real_root, name, size)

    def place(self, folder: str) -> str:
        """A folder in messages."""
        return str(self._top / folder)

    def file(self, path: str) -> LabelFile | None:
        """A file of labels, unless it is a link that leads out of the folder."""
        return file_below(self._top, path)

    def annotations(self, folder: str) -> Annotations:
        """The annotations in a folder."""
        return AnnotationsInFolder(self._top, folder)

    def kind_of(self, *, is_flat: bool, has_labels: bool) -> str:
        """The kind in plans."""
        return FLAT if is_flat else KIND


class FolderReader(Source):
    """The images of a plan, in a folder of a folder."""

    def __init__(self, root: Path, within: str, kind: str) -> None:
        self.kind = kind
        self.where = str(root / within)
        self._root = root / within
        self._real_root = os.path.realpath(root)

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Is not called: the plan has the images."""
        raise NotImplementedError

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return read_image(self._root, self._real_root, name, size)


class FlatFolder(FolderListing):
    """Images directly in a folder; `labels` reads their classes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.kind = FLAT

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in an order that depends on their names alone."""
        links = Links(self._root)
        for name in sorted_names(self._root):
            status = links.look(f"{self._root}/{name}", is_wanted=True) if is_image(name) else None
            if status is not None and stat.S_ISREG(status.st_mode):
                yield Image("", name, 0, status.st_size, status.st_mtime_ns)
            else:
                notes.pass_over(name)

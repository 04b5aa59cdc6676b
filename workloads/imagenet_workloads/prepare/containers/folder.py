"""The images of a folder of a volume or of a prefix of a bucket: each below it, by its path."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.clients.s3 import AT_ONCE, Bucket, Object
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.entry_names import (
    TABLES,
    TEST,
    TRAINING,
    VALIDATION,
    is_hidden,
    is_image,
    join,
    splits,
)
from imagenet_workloads.prepare.source import (
    LARGEST_ANNOTATION,
    Annotations,
    Image,
    Listing,
    Notes,
    PlannedSource,
    Source,
)
from imagenet_workloads.prepare.stores.blob import LabelFile, changed, map_in_order, readable
from imagenet_workloads.prepare.stores.s3 import label_object
from imagenet_workloads.prepare.stores.volume import (
    Links,
    file_below,
    names_in,
    read_image,
    require_inside,
    sorted_names,
)

FOLDER, FLAT_FOLDER = "folder of folders", "flat folder"

PREFIX, FLAT_PREFIX = "prefix of folders", "flat prefix"
ANNOTATION_SUFFIX = ".xml"
# The levels whose names are counted first, to tell the share.
_COUNTED = 3
# Names of a folder after which the share is told again.
_SHARED = 256


@dataclass(slots=True)
class _Open:
    """A folder on the way to the images that are being listed.

    Attributes:
        prefix: its path below the root with a slash; empty for the root.
        names: the numbered names in it that are still to be listed.
        start: the share of the source before it.
        step: the share of each name.
        real_path: without links; None for the root.
    """

    prefix: str
    names: Iterator[tuple[int, str]]
    start: float
    step: float
    real_path: str | None
    has_images: bool = False


class FolderListing(Listing):
    """Every image below the folder `start` of a root. Holds some names of one folder at a time."""

    strips = True

    def __init__(self, root: Path, start: str = "") -> None:
        self.kind = FOLDER
        self.start = start
        self.where = str(root / start)
        self.below = "--source", f"{root}/", "path"
        self.remedy = f"write --source {(root / start).absolute().parent} (path), or "
        self._top = root
        self._root = root / start
        self._real_root = os.path.realpath(self._root)

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in an order that depends on their names alone."""
        links, root = Links(self._root), f"{self._root}/"
        prefix = f"{self.start}/" if self.start else ""
        folders = [self._opened("", None, 0, 0.0, 1.0)]
        while folders:
            folder = folders[-1]
            above, named = root + folder.prefix, prefix + folder.prefix
            for number, base in folder.names:
                if not number % _SHARED:
                    notes.share = min(1.0, folder.start + number * folder.step)
                path = above + base
                named_like_image = is_image(base)
                if not named_like_image and is_hidden(base) and files.is_folder(Path(path)):
                    notes.hide(named + base)
                    continue
                status = None if base[0] == "." else links.look(path, named_like_image)
                if status is None:
                    notes.pass_over(named + base)
                elif named_like_image and stat.S_ISREG(status.st_mode):
                    folder.has_images = True
                    yield Image("", named + base, 0, status.st_size, status.st_mtime_ns)
                elif not stat.S_ISDIR(status.st_mode):
                    notes.pass_over(named + base)
                elif base == "Annotations" and Path(above, "Data", "CLS-LOC").is_dir():
                    # Kaggle's annotations have no images.
                    notes.pass_over(folder.prefix + base)
                else:
                    real_path = links.enter(path, folder.real_path)
                    start = folder.start + number * folder.step
                    below = f"{folder.prefix}{base}/"
                    folders.append(self._opened(below, real_path, len(folders), start, folder.step))
                    break
            else:
                folders.pop()
                if folders:
                    folders[-1].has_images |= folder.has_images
                    if not folder.has_images:
                        notes.empty.append(prefix + folder.prefix[:-1])

    def _opened(
        self, prefix: str, real_path: str | None, depth: int, start: float, share: float
    ) -> _Open:
        """A folder whose names are to be listed, with its share of the source."""
        folder = self._root / prefix
        names, total = sorted_names(folder), 0
        if depth < _COUNTED:
            total = len(names) if isinstance(names, list) else sum(1 for _ in names_in(folder))
        step = share / total if total else 0.0
        return _Open(prefix, enumerate(names), start, step, real_path)

    def read(self, name: str, offset: int, size: int) -> bytes:
        return read_image(self._top, self._real_root, name, size)

    def place(self, folder: str) -> str:
        return str(self._top / folder)

    def file(self, path: str) -> LabelFile | None:
        return file_below(self._top, path)

    def annotations(self, folder: str) -> Annotations:
        return AnnotationsInFolder(self._top, folder)

    def kind_of(self, *, is_flat: bool, has_labels: bool) -> str:
        return FLAT_FOLDER if is_flat else FOLDER


def planned_folder(root: Path, within: str, kind: str) -> Source:
    """The images of a plan, in a folder of a folder."""
    top, real_root = root / within, os.path.realpath(root)
    return PlannedSource(
        kind, str(top), lambda name, _, size: read_image(top, real_root, name, size)
    )


class FlatFolder(FolderListing):
    """Images directly in a folder; `labels` reads their classes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.kind = FLAT_FOLDER

    def scan(self, notes: Notes) -> Iterator[Image]:
        links = Links(self._root)
        for name in sorted_names(self._root):
            status = links.look(f"{self._root}/{name}", is_wanted=True) if is_image(name) else None
            if status is not None and stat.S_ISREG(status.st_mode):
                yield Image("", name, 0, status.st_size, status.st_mtime_ns)
            else:
                notes.pass_over(name)


class AnnotationsInFolder:
    """The annotations in a folder of a tree on a volume; links out of the tree are refused."""

    def __init__(self, root: Path, folder: str) -> None:
        self.where = str(root / folder)
        self._root = root

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        require_inside(self.where, str(self._root))
        for folder, folders, names in os.walk(self.where):
            folders.sort()
            for name in sorted(names):
                path = f"{folder}/{name}"
                if not name.endswith(ANNOTATION_SUFFIX):
                    continue
                if Path(path).is_symlink():
                    require_inside(path, str(self._root))
                try:
                    with os.fdopen(files.open_file(path), "rb") as file:
                        content = file.read(LARGEST_ANNOTATION + 1)
                except OSError as error:
                    raise InputError(
                        f"{readable(path)}: cannot be read: {error.strerror}"
                    ) from error
                yield path, content


class S3Folder(Listing):
    """Every image below `start`, from the prefix on.

    An image is an object. The place of the ETag in the key of the dataset is its `offset`: a number
    made of the ETag, by which `read` notices another object.
    """

    kind = PREFIX
    reads_at_once = AT_ONCE
    strips = True

    def __init__(self, bucket: Bucket, prefix: str, start: str = "") -> None:
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._root = f"{self._prefix}/" if self._prefix else ""
        self.start = start
        self.where = bucket.where(f"{join(self._prefix, start)}/".lstrip("/"))
        self._files: dict[str, None] = {}

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by prefix. Several are listed at once where they are classes."""
        yield from self._below(join(self._prefix, self.start), notes, (0.0, 1.0))

    def _below(self, prefix: str, notes: Notes, span: tuple[float, float]) -> Iterator[Image]:
        folders, objects = self._bucket.folders(prefix)
        for one in objects:
            yield from self._images(one, notes)
        wanted = []
        is_kaggle = any(f"/{one.rstrip('/')}".endswith("/Data") for one in folders)
        for folder in (one.rstrip("/") for one in folders):
            if is_hidden(folder.rpartition("/")[2]):
                notes.hide(folder.removeprefix(self._root))
            elif folder.rpartition("/")[2] == "Annotations" and is_kaggle:
                notes.pass_over(folder.removeprefix(self._root))
            else:
                wanted.append(folder)
        of = splits([folder.rpartition("/")[2] for folder in wanted])
        if {TRAINING, VALIDATION} <= {*of.values()} and notes.survey is not None:
            # Left out by its name whatever it holds: listing it would take requests.
            tests = [one for one in wanted if of[one.rpartition("/")[2]] == TEST]
            notes.survey.unlisted += [one.removeprefix(self._root) for one in tests]
            wanted = [one for one in wanted if one not in tests]
        start, step = span[0], (span[1] - span[0]) / max(1, len(wanted))
        names = [folder.rpartition("/")[2] for folder in wanted]
        # One alone, splits, or Kaggle's: folders that are listed each by itself.
        is_kaggle = any(name in ("ILSVRC", "Data", "CLS-LOC") for name in names)
        if len(names) == 1 or is_kaggle or len({*splits(names).values()} - {""}) > 1:
            for number, folder in enumerate(wanted):
                place = start + number * step
                yield from self._below(folder, notes, (place, place + step))
            return
        listed = map_in_order(self._bucket.below, wanted, AT_ONCE)
        for number, (folder, found) in enumerate(zip(wanted, listed, strict=True)):
            notes.share = start + number * step
            images = [image for one in found for image in self._images(one, notes)]
            if not images:
                notes.empty.append(folder.removeprefix(self._root))
            yield from images

    def _images(self, one: Object, notes: Notes) -> Iterator[Image]:
        name = one.key.removeprefix(self._root)
        folder = name.rpartition("/")[0]
        # Some tools make an empty object for each folder.
        if one.key.endswith("/"):
            return
        if is_hidden(folder.removeprefix(self.start)):
            notes.hide(name)
        elif is_image(one.key):
            yield Image("", name, _number(one), one.size, 0)
        else:
            if one.size and name.endswith(TABLES):
                self._files[name] = None
            notes.pass_over(name)

    def read(self, name: str, offset: int, size: int) -> bytes:
        return _read_object(self._bucket, f"{self._root}{name}", offset, size)

    def place(self, folder: str) -> str:
        return self._bucket.where(f"{join(self._prefix, folder)}/".lstrip("/"))

    def file(self, path: str) -> LabelFile | None:
        """An object with labels: one of the listing, or above what is listed."""
        is_listed = path in self._files
        if not is_listed and self.start and not path.startswith(f"{self.start}/"):
            _, above = self._bucket.folders(join(self._prefix, path.rpartition("/")[0]))
            is_listed = any(one.key == f"{self._root}{path}" for one in above)
        return label_object(self._bucket, f"{self._root}{path}") if is_listed else None

    def annotations(self, folder: str) -> Annotations:
        return _S3Annotations(self._bucket, join(self._prefix, folder))

    def kind_of(self, *, is_flat: bool, has_labels: bool) -> str:
        del has_labels
        return FLAT_PREFIX if is_flat else PREFIX


def planned_prefix(bucket: Bucket, prefix: str, kind: str) -> Source:
    """The images of a plan below a prefix."""
    root = f"{prefix.strip('/')}/".lstrip("/")

    def read(name: str, offset: int, size: int) -> bytes:
        return _read_object(bucket, f"{root}{name}", offset, size)

    return PlannedSource(kind, bucket.where(root), read, reads_at_once=AT_ONCE)


class S3FlatFolder(S3Folder):
    """Images below a prefix; `labels` reads their classes."""

    kind = FLAT_PREFIX

    def scan(self, notes: Notes) -> Iterator[Image]:
        for one in self._bucket.below(self._prefix):
            yield from self._images(one, notes)


class _S3Annotations:
    """The annotations below a prefix, each an object that takes a request."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self.where = bucket.where(f"{prefix}/")
        self._bucket = bucket
        self._prefix = prefix

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yields the key and the content of each; many are read at the same time."""

        def read(key: str) -> tuple[str, bytes]:
            return key, self._bucket.read(key, (0, LARGEST_ANNOTATION + 1))[1]

        yield from map_in_order(read, self._keys(), AT_ONCE)

    def _keys(self) -> Iterator[str]:
        for split in self._bucket.folders(self._prefix)[0]:
            classes, objects = self._bucket.folders(split.rstrip("/"))
            yield from (one.key for one in objects if one.key.endswith(ANNOTATION_SUFFIX))
            for folder in classes:
                found = self._bucket.below(folder)
                yield from (one.key for one in found if one.key.endswith(ANNOTATION_SUFFIX))


def _number(one: Object) -> int:
    """A number made of an object's ETag, or of its time if it has none."""
    digest = hashlib.blake2b((one.etag or one.last_modified).encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")


def _read_object(bucket: Bucket, key: str, number: int, size: int) -> bytes:
    found, data = bucket.read(key)
    if len(data) != size:
        raise changed(bucket.where(key), f"has {len(data)} bytes in place of {size}")
    if _number(found) != number:
        raise changed(bucket.where(key), "has another ETag")
    return data

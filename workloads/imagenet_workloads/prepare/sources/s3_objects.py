"""Objects of a bucket: an archive as a `Blob`, a prefix as a folder of images, a label file."""

import hashlib
from collections.abc import Iterator, Sequence

from imagenet_workloads.clients.s3 import AT_ONCE, Bucket, Object
from imagenet_workloads.prepare.annotations import LARGEST
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.sources import tree as trees
from imagenet_workloads.prepare.sources.layouts import words
from imagenet_workloads.prepare.sources.layouts.survey import is_hidden
from imagenet_workloads.prepare.sources.source import (
    Annotations,
    Image,
    Listing,
    Notes,
    Source,
    is_image,
)
from imagenet_workloads.prepare.sources.tree_annotations import SUFFIX
from imagenet_workloads.prepare.stores.blob import LabelFile, changed
from imagenet_workloads.prepare.stores.s3 import S3Labels

KIND, FLAT = "prefix of folders", "flat prefix"


class S3Folder(Listing):
    """Every image below a prefix.

    An image is an object. The place of the ETag in the key of the dataset is its `offset`: a number
    made of the ETag, by which `read` notices another object.
    """

    kind = KIND
    reads_at_once = AT_ONCE
    strips = True

    def __init__(self, bucket: Bucket, prefix: str, start: str = "") -> None:
        """Lists nothing yet.

        Args:
            bucket: the bucket.
            prefix: from which paths are.
            start: the prefix to list, from there.
        """
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._root = f"{self._prefix}/" if self._prefix else ""
        self.start = start
        self.where = bucket.where(f"{trees.join(self._prefix, start)}/".lstrip("/"))
        self._files: dict[str, None] = {}

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by prefix. Several are listed at once where they are classes."""
        yield from self._below(trees.join(self._prefix, self.start), notes, (0.0, 1.0))

    def _below(self, prefix: str, notes: Notes, span: tuple[float, float]) -> Iterator[Image]:
        folders, objects = self._bucket.folders(prefix)
        for one in objects:
            yield from self._images(one, notes)
        wanted = []
        for folder in (one.rstrip("/") for one in folders):
            if is_hidden(folder.rpartition("/")[2]):
                notes.hide(folder.removeprefix(self._root))
            elif folder.rpartition("/")[2] == "Annotations" and _is_kaggle(folders):
                notes.pass_over(folder.removeprefix(self._root))
            else:
                wanted.append(folder)
        of = words.splits([folder.rpartition("/")[2] for folder in wanted])
        if {words.TRAINING, words.VALIDATION} <= {*of.values()} and notes.survey is not None:
            # Left out by its name whatever it holds: listing it would take requests.
            tests = [one for one in wanted if of[one.rpartition("/")[2]] == words.TEST]
            notes.survey.unlisted += [one.removeprefix(self._root) for one in tests]
            wanted = [one for one in wanted if one not in tests]
        start, step = span[0], (span[1] - span[0]) / max(1, len(wanted))
        names = [folder.rpartition("/")[2] for folder in wanted]
        if _are_above_classes(names):
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
            if one.size and name.endswith(trees.TABLES):
                self._files[name] = None
            notes.pass_over(name)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return _read_image(self._bucket, f"{self._root}{name}", offset, size)

    def place(self, folder: str) -> str:
        """A prefix in messages."""
        return self._bucket.where(f"{trees.join(self._prefix, folder)}/".lstrip("/"))

    def file(self, path: str) -> LabelFile | None:
        """An object with labels: one of the listing, or above what is listed."""
        is_listed = path in self._files
        if not is_listed and self.start and not path.startswith(f"{self.start}/"):
            is_listed = path in self._names_above(path.rpartition("/")[0])
        return S3Labels(self._bucket, f"{self._root}{path}") if is_listed else None

    def _names_above(self, folder: str) -> frozenset[str]:
        _, objects = self._bucket.folders(trees.join(self._prefix, folder))
        return frozenset(one.key.removeprefix(self._root) for one in objects)

    def annotations(self, folder: str) -> Annotations:
        """The annotations below a prefix, each an object that takes a request."""
        return _S3Annotations(self._bucket, trees.join(self._prefix, folder))

    def kind_of(self, *, is_flat: bool, has_labels: bool) -> str:
        """The kind in plans."""
        del has_labels
        return FLAT if is_flat else KIND


class S3Reader(Source):
    """The images of a plan below a prefix."""

    reads_at_once = AT_ONCE

    def __init__(self, bucket: Bucket, prefix: str, kind: str) -> None:
        self.kind = kind
        self._bucket = bucket
        self._root = f"{prefix.strip('/')}/".lstrip("/")
        self.where = bucket.where(self._root)

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Is not called: the plan has the images."""
        raise NotImplementedError

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return _read_image(self._bucket, f"{self._root}{name}", offset, size)


class S3FlatFolder(S3Folder):
    """Images below a prefix; `labels` reads their classes."""

    kind = FLAT

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by key."""
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
        yield from map_in_order(self._read, self._keys(), AT_ONCE)

    def _keys(self) -> Iterator[str]:
        for split in self._bucket.folders(self._prefix)[0]:
            classes, objects = self._bucket.folders(split.rstrip("/"))
            yield from (one.key for one in objects if one.key.endswith(SUFFIX))
            for folder in classes:
                found = self._bucket.below(folder)
                yield from (one.key for one in found if one.key.endswith(SUFFIX))

    def _read(self, key: str) -> tuple[str, bytes]:
        return key, self._bucket.read(key, (0, LARGEST + 1))[1]


def open_prefix(bucket: Bucket, prefix: str) -> S3Folder:
    """Lists a prefix; in Kaggle's tree, files of labels may lie above it."""
    parts = [part for part in prefix.split("/") if part]
    above = len(parts) - trees.kaggle_root(parts)
    return S3Folder(bucket, "/".join(parts[:above]), "/".join(parts[above:]))


def _is_kaggle(folders: Sequence[str]) -> bool:
    return any(one.rstrip("/").endswith("/Data") or one.rstrip("/") == "Data" for one in folders)


def _are_above_classes(names: Sequence[str]) -> bool:
    """Whether folders are listed each by itself: one alone, splits, or Kaggle's."""
    is_kaggle = any(name in ("ILSVRC", "Data", "CLS-LOC") for name in names)
    return len(names) == 1 or is_kaggle or len({*words.splits(names).values()} - {""}) > 1


def _number(one: Object) -> int:
    """A number made of an object's ETag, or of its time if it has none."""
    digest = hashlib.blake2b((one.etag or one.last_modified).encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")


def _read_image(bucket: Bucket, key: str, number: int, size: int) -> bytes:
    found, data = bucket.read(key)
    if len(data) != size:
        raise changed(bucket.where(key), f"has {len(data)} bytes in place of {size}")
    if _number(found) != number:
        raise changed(bucket.where(key), "has another ETag")
    return data

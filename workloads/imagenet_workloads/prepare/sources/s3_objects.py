"""Objects of a bucket: an archive as a `Blob`, a prefix as a folder of images, a label file."""

import hashlib
import io
from collections.abc import Iterator

from imagenet_workloads.clients.s3 import AT_ONCE, Bucket, Object, ObjectChangedError
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.sources.label_file import LabelFile
from imagenet_workloads.prepare.sources.layout import Layout
from imagenet_workloads.prepare.sources.remote import Version
from imagenet_workloads.prepare.sources.source import (
    Image,
    Notes,
    Source,
    changed,
    class_name_in,
    is_image,
    readable,
)

# Label files are read into memory.
LARGEST_LABELS = 64 << 20


class S3Blob:
    """An object as a `Blob`.

    Attributes:
        where: `s3://BUCKET/KEY`.
        version: of the first answer.
        at_once: the most requests at the same time.
        cache_field: the field that has the object stored first.
    """

    at_once = AT_ONCE
    cache_field = "source.s3.cache"

    def __init__(self, bucket: Bucket, key: str) -> None:
        """Asks for the first byte, for the object's size and version.

        Raises:
            InputError: there is no such object, or the keys are refused.
            WorkloadError: the server cannot be reached.
        """
        self.where = bucket.where(key)
        self._bucket = bucket
        self._key = key
        found, _ = bucket.read(key, (0, 1))
        self.size = found.size
        self.version = _version(self.where, found)

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range, fewer at the end.

        Raises:
            InputError: the object has changed, or the keys are refused.
            WorkloadError: the range cannot be read.
        """
        size = min(size, self.size - offset)
        if size <= 0:
            return b""
        span = offset, offset + size
        try:
            found, data = self._bucket.read(self._key, span, self.version.etag)
        except ObjectChangedError:
            raise changed(self.where, "is another object") from None
        self.version.require(_version(self.where, found))
        if len(data) != size:
            raise WorkloadError(f"{self.where}: the server answers {len(data)} bytes of {size}")
        return data

    def close(self) -> None:
        """Keeps nothing open."""


class S3Folder(Source):
    """Each prefix below a prefix is a class; images may be deeper.

    An image is an object. The place of the ETag in the key of the dataset is its `offset`: a number
    made of the ETag, by which `read` notices another object.
    """

    kind = "prefix of folders"
    reads_at_once = AT_ONCE

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._root = f"{self._prefix}/" if self._prefix else ""
        self.where = bucket.where(self._root)

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by class, and in a class by key. Several classes are listed at once."""
        folders, objects = self._bucket.folders(self._prefix)
        stray = [one.key for one in objects if is_image(one.key)]
        for one in objects:
            notes.pass_over(one.key)
        classes = [one for one in folders if not one.rpartition("/")[2].startswith(".")]
        layout = Layout()
        listed = map_in_order(self._bucket.below, classes, AT_ONCE)
        for number, (folder, found) in enumerate(zip(classes, listed, strict=True)):
            notes.share = number / len(classes)
            name = class_name_in(folder.rpartition("/")[2], self.where)
            images = [one for one in found if _is_wanted(one, notes)]
            for one in images:
                relative = one.key.removeprefix(self._root)
                layout.add(relative.rpartition("/")[0])
                yield _image(name, relative, one)
            if not images:
                notes.empty.append(name)
        self._require_classes(layout, stray)

    def _require_classes(self, layout: Layout, stray: list[str]) -> None:
        if stray and not layout.has_images:
            raise InputError(
                f"{self.where}: its images (such as {readable(stray[0])}) are below no prefixes, "
                "so they have no classes; write a prefix that holds class folders"
            )
        mistake = layout.mistake()
        if mistake is not None:
            what, root = mistake
            remedy = f"write {self._root}{root} (prefix)" if root else "give class folders"
            raise InputError(f"{self.where}: {what}; {remedy}")

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return _read_image(self._bucket, f"{self._root}{name}", offset, size)


class S3FlatFolder(Source):
    """Images below a prefix; `labels` reads their classes."""

    kind = "flat prefix"
    reads_at_once = AT_ONCE

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self.where = bucket.where(f"{self._prefix}/")

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by key."""
        for one in self._bucket.below(self._prefix):
            if _is_wanted(one, notes):
                yield _image("", one.key.removeprefix(f"{self._prefix}/"), one)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return _read_image(self._bucket, f"{self._prefix}/{name}", offset, size)


class S3Labels:
    """An object as a `LabelFile`."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket = bucket
        self._key = key

    def __str__(self) -> str:
        return self._bucket.where(self._key)

    def open(self) -> io.BufferedReader:
        """Its content."""
        _, data = self._bucket.read(self._key, (0, LARGEST_LABELS + 1))
        if len(data) > LARGEST_LABELS:
            raise InputError(f"{self}: a label file may have {LARGEST_LABELS} bytes, and has more")
        return io.BufferedReader(io.BytesIO(data))

    def beside(self, name: str) -> LabelFile | None:
        """The object of this name below the same prefix."""
        folder = self._key.rpartition("/")[0]
        _, objects = self._bucket.folders(folder)
        key = f"{folder}/{name}" if folder else name
        return S3Labels(self._bucket, key) if any(one.key == key for one in objects) else None


def _is_wanted(one: Object, notes: Notes) -> bool:
    if is_image(one.key):
        return True
    # Some tools make an empty object for each folder.
    if not one.key.endswith("/"):
        notes.pass_over(one.key)
    return False


def _image(class_name: str, name: str, one: Object) -> Image:
    return Image(class_name, name, _number(one), one.size, 0)


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


def _version(where: str, found: Object) -> Version:
    return Version(where, found.size, found.etag, found.last_modified)

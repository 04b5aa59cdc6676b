"""Objects of a bucket: one as a `Blob`, and a label file."""

import io

from imagenet_workloads.clients.s3 import AT_ONCE, Bucket, Object, ObjectChangedError
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.stores.blob import LabelFile, changed, in_memory
from imagenet_workloads.prepare.stores.remote import Version

# Label files are read into memory.
LARGEST_LABELS = 64 << 20


class S3Blob:
    """An object as a `RemoteBlob`; its address in messages is `s3://BUCKET/KEY`."""

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


def label_object(bucket: Bucket, key: str) -> LabelFile:
    """An object as a `LabelFile`; others are beside it below the same prefix."""
    where = bucket.where(key)

    def read() -> io.BufferedReader:
        _, data = bucket.read(key, (0, LARGEST_LABELS + 1))
        if len(data) > LARGEST_LABELS:
            raise InputError(f"{where}: a label file may have {LARGEST_LABELS} bytes, and has more")
        return in_memory(data)

    def beside(name: str) -> LabelFile | None:
        folder = key.rpartition("/")[0]
        _, objects = bucket.folders(folder)
        other = f"{folder}/{name}" if folder else name
        return label_object(bucket, other) if any(one.key == other for one in objects) else None

    return LabelFile(where, read, beside)


def _version(where: str, found: Object) -> Version:
    return Version(where, found.size, found.etag, found.last_modified)

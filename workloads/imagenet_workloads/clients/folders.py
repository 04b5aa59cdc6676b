"""A folder of files on a server or below a prefix of a bucket, of which ranges are read.

    folder = open_folder("s3://datasets/imagenet", endpoint="https://s3.example.org")
    folder.read("train-00000-of-00008.rec", 0, 1 << 20)

The login, or the keys of the bucket, are in `$IMAGENET_CREDENTIALS`.
"""

import re
from http import HTTPStatus
from typing import Protocol

from imagenet_workloads.clients.credentials import Credentials
from imagenet_workloads.clients.http import Address, HttpClient, Login
from imagenet_workloads.clients.s3 import Bucket, open_bucket
from imagenet_workloads.errors import InputError, WorkloadError

SCHEME = "s3://"
USERNAME, PASSWORD = "username", "password"

# The answer to a request for a small file is read into memory.
_LARGEST_WHOLE = 1 << 30
_BUCKET = re.compile(r"s3://([^/]+)/(.*[^/])/*")


class RemoteFolder(Protocol):
    """A folder whose files never change; may be used from several threads.

    Reading raises an InputError if there is no such file, or the server refuses, and a
    WorkloadError if the server cannot be reached, or the answer is short.
    """

    def where(self, name: str) -> str:
        """The address of a file in messages, without a query."""

    def read(self, name: str, begin: int, length: int) -> bytes:
        """Reads a range of a file: exactly `length` bytes."""

    def read_whole(self, name: str) -> bytes:
        """Reads a small file."""


class BucketFolder:
    """A prefix of a bucket, without slashes at its ends."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self.bucket = bucket
        self.prefix = prefix.strip("/")

    def key(self, name: str) -> str:
        return f"{self.prefix}/{name}"

    def where(self, name: str) -> str:
        return self.bucket.where(self.key(name))

    def read(self, name: str, begin: int, length: int) -> bytes:
        _, content = self.bucket.read(self.key(name), (begin, begin + length))
        return _whole(content, length, self.where(name))

    def read_whole(self, name: str) -> bytes:
        return self.bucket.read(self.key(name))[1]


class ServedFolder:
    """A folder of a server that answers requests for ranges of bytes."""

    def __init__(self, url: str, client: HttpClient, query: str = "") -> None:
        """Take a URL without query; the query is appended to that of each file."""
        self._url = url.rstrip("/")
        self._client = client
        self._query = query.lstrip("?")

    def where(self, name: str) -> str:
        return f"{self._url}/{name}"

    def read(self, name: str, begin: int, length: int) -> bytes:
        span = {"Range": f"bytes={begin}-{begin + length - 1}"}
        ignored = frozenset((HTTPStatus.OK,))
        answer = self._client.get(
            self._address(name), HTTPStatus.PARTIAL_CONTENT, length, span, ignored
        )
        if answer.status in ignored:
            raise InputError(
                f"{self.where(name)}: the server does not answer requests for ranges of bytes; "
                "use another server, or copy the dataset to a claim"
            )
        return _whole(answer.body, length, self.where(name))

    def read_whole(self, name: str) -> bytes:
        return self._client.get(self._address(name), HTTPStatus.OK, _LARGEST_WHOLE, {}).body

    def _address(self, name: str) -> Address:
        return Address(self.where(name), self._query)


def open_bucket_folder(
    url: str,
    endpoint: str | None = None,
    region: str | None = None,
    credentials: Credentials | None = None,
) -> BucketFolder:
    """Open `s3://BUCKET/PREFIX` at the URL of an S3 API, by default AWS's.

    InputError if it is no such address, or the Secret lacks a key.
    """
    found = _BUCKET.fullmatch(url)
    if found is None:
        raise InputError(f"{url}: is no folder in a bucket; write s3://BUCKET/PREFIX")
    return BucketFolder(open_bucket(found[1], endpoint, region, credentials), found[2])


def open_folder(
    url: str, endpoint: str | None = None, region: str | None = None, query_key: str | None = None
) -> RemoteFolder:
    """Open `s3://BUCKET/PREFIX`, or the URL of a folder on a server.

    `query_key` is the key of the Secret with the query of each file's URL; None for no query.
    InputError if it is no such address, or the Secret lacks a key.
    """
    if url.startswith(SCHEME):
        return open_bucket_folder(url, endpoint, region)
    credentials = Credentials()
    query = "" if query_key is None else credentials.read(query_key)
    login, keys = None, (USERNAME, PASSWORD)
    if credentials.are_given and (not query or any(map(credentials.has, keys))):
        login = Login(*map(credentials.read, keys))
    return ServedFolder(url, HttpClient(login), query)


def _whole(content: bytes, length: int, where: str) -> bytes:
    if len(content) != length:
        raise WorkloadError(f"{where}: the server answers {len(content)} bytes of {length}")
    return content

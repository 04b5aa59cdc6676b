"""Files of an HTTP server: one as a `Blob`, read by ranges, and small files as a whole."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from imagenet_workloads.clients.http import AT_ONCE, Address, Answer, HttpClient
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.stores.blob import LabelFile, changed, in_memory
from imagenet_workloads.prepare.stores.remote import Version, WholeFile

CACHE_FIELD = "source.http.cache"

# Label files are read into memory.
LARGEST_WHOLE = 64 << 20

_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_CHANGED = frozenset((HTTPStatus.PRECONDITION_FAILED, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE))


@dataclass(frozen=True)
class ServedFile:
    """A file of a server, as the manifest describes it; its checksum is `sha256:…` or `md5:…`."""

    name: str
    address: Address
    size: int | None = None
    checksum: str | None = None


class NoRangesError(InputError):
    """The server answers requests for ranges with whole files.

    The size in the version is 0 if the server gives none.
    """

    def __init__(self, version: Version, cache_field: str) -> None:
        super().__init__(
            f"{version.where}: the server does not answer requests for ranges of bytes; "
            f"write {cache_field}, which stores the file first"
        )
        self.version = version


class HttpBlob:
    """A file of a server as a `RemoteBlob`."""

    at_once = AT_ONCE

    def __init__(
        self, file: ServedFile, client: HttpClient, cache_field: str = CACHE_FIELD
    ) -> None:
        """Asks for the first byte, for the file's size and version.

        Raises:
            NoRangesError: the server ignores ranges.
            InputError: the server refuses, or has a file of another size.
            WorkloadError: the server cannot be reached.
        """
        self.where = file.address.url
        self.cache_field = cache_field
        self._address = file.address
        self._client = client
        answer = self._get(0, 1, {})
        if answer.status == HTTPStatus.OK:
            raise NoRangesError(_whole_version(self.where, answer.headers), cache_field)
        if answer.status in _CHANGED:
            raise InputError(f"{self.where}: is empty")
        _, _, self.size = _range(answer, self.where)
        _require_size(file, self.size)
        self.version = _version(answer.headers, self.where, self.size)

    def read(self, offset: int, size: int) -> bytes:
        size = min(size, self.size - offset)
        if size <= 0:
            return b""
        # If-Match compares strong tags only.
        is_strong = self.version.etag.startswith('"')
        condition = {"If-Match": self.version.etag} if is_strong else {}
        answer = self._get(offset, size, condition)
        if answer.status in _CHANGED:
            raise changed(self.where, "is another file")
        if answer.status == HTTPStatus.OK:
            raise InputError(f"{self.where}: the server ignores some requests for ranges of bytes")
        first, last, total = _range(answer, self.where)
        self.version.require(_version(answer.headers, self.where, total))
        if (first, last) != (offset, offset + size - 1) or len(answer.body) != size:
            raise WorkloadError(
                f"{self.where}: the server answers {len(answer.body)} bytes from {first} in place "
                f"of {size} from {offset}"
            )
        return answer.body

    def close(self) -> None:
        self._client.close()

    def _get(self, offset: int, size: int, condition: Mapping[str, str]) -> Answer:
        headers = {"Range": f"bytes={offset}-{offset + size - 1}", **condition}
        others = _CHANGED | {HTTPStatus.OK}
        return self._client.get(self._address, HTTPStatus.PARTIAL_CONTENT, size, headers, others)


def served_labels(
    name: str, files: Mapping[str, ServedFile], contents: Mapping[str, bytes]
) -> LabelFile:
    """A label file of a server, in memory; others of the source are beside it."""
    return LabelFile(
        files[name].address.url,
        lambda: in_memory(contents[name]),
        lambda other: served_labels(other, files, contents) if other in contents else None,
    )


def download(file: ServedFile, client: HttpClient) -> bytes:
    """Reads a small file as a whole; the manifest may give its size and checksum."""
    where = file.address.url
    content = client.get(file.address, HTTPStatus.OK, LARGEST_WHOLE + 1, {}).body
    if len(content) > LARGEST_WHOLE:
        raise InputError(f"{where}: a label file may have {LARGEST_WHOLE} bytes, and has more")
    _require_size(file, len(content))
    if file.checksum is not None:
        algorithm, _, digest = file.checksum.partition(":")
        found = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
        if found != digest:
            raise InputError(f"{where}: has the {algorithm} {found} in place of {digest}")
    return content


def open_to_fetch(file: ServedFile, client: HttpClient) -> HttpBlob | WholeFile:
    """Asks for the version of a file; the server may know no ranges."""
    try:
        return HttpBlob(file, client)
    except NoRangesError as error:
        first = error.version

    def receive(take: Callable[[Version, Iterable[bytes]], None]) -> None:
        def begin(headers: Mapping[str, str], chunks: Iterator[bytes]) -> None:
            version = _whole_version(file.address.url, headers)
            if version.size:
                _require_size(file, version.size)
            take(version, chunks)

        client.receive(file.address, begin)

    return WholeFile(first, receive, client.close)


def _require_size(file: ServedFile, size: int) -> None:
    if file.size not in (None, size):
        raise InputError(
            f"{file.address.url}: has {size} bytes in place of {file.size} (sizeBytes)"
        )


def _whole_version(where: str, headers: Mapping[str, str]) -> Version:
    size = headers.get("Content-Length", "")
    return _version(headers, where, int(size) if size.isascii() and size.isdigit() else 0)


def _range(answer: Answer, where: str) -> tuple[int, int, int]:
    """The first and the last byte of an answer, and the bytes of the file."""
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if found is None:
        raise InputError(f"{where}: the server gives no size of the file (Content-Range)")
    first, last, total = map(int, found.groups())
    return first, last, total


def _version(headers: Mapping[str, str], where: str, size: int) -> Version:
    return Version(where, size, headers.get("ETag", ""), headers.get("Last-Modified", ""))

"""Compressed files, such as cifar-10-binary.tar.gz, and the names that they have.

Images are read by offset, which a compressed file does not allow. A small one is decompressed onto
the dataset's volume, by index and by each pod of pack; the unnamed file is gone with the process. A
large one would take longer than to decompress it once, so it is refused. A dataset has the name of
the tar in a compressed one: n1.tar for n1.tar.gz.
"""

import bz2
import gzip
import io
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.stores.blob import Blob, BlobFile, Kept, Part

_SHORT = {".gz": ".tgz", ".bz2": ".tbz2", ".xz": ".txz", ".zst": ".tzst"}
SUFFIXES = (*(f".tar{one}" for one in _SHORT), *_SHORT.values())

# Of image-net.org: the development kit and the bounding boxes.
_NO_IMAGES = ("ILSVRC2012_devkit", "ILSVRC2012_bbox")
# Of the compressed and of the decompressed file.
LARGEST_COMPRESSED, LARGEST = 1 << 30, 4 << 30
_BLOCK = 1 << 20
# A block of zstd may be a thousand times as large without compression.
_ZSTD_BLOCK = 64 << 10
MAGIC = 16
"""The first bytes of a file by which its format is known."""


def is_compressed_tar(name: str) -> bool:
    """Whether a file is named like the compressed archive of a class."""
    return name.endswith(SUFFIXES) and not name.startswith((*_NO_IMAGES, "."))


def plain_name(name: str) -> str:
    """The name of the tar in a compressed one; other names as they are.

    >>> plain_name("n1.tar.gz"), plain_name("n1.tgz"), plain_name("n1.zip")
    ('n1.tar', 'n1.tar', 'n1.zip')
    """
    suffix = next((one for one in SUFFIXES if is_compressed_tar(name) and name.endswith(one)), None)
    return name if suffix is None else f"{name.removesuffix(suffix)}.tar"


def name_forms(name: str) -> Iterator[str]:
    """Yields the names that a file may have: its own, and for a tar those of compressed ones."""
    yield name
    if name.endswith(".tar"):
        yield from (name.removesuffix(".tar") + suffix for suffix in SUFFIXES)


def by_plain_name(names: Iterable[str], where: str) -> dict[str, str]:
    """The names of files by those that a dataset has; an `InputError` if two have one."""
    found: dict[str, str] = {}
    for name in names:
        other = found.setdefault(plain_name(name), name)
        if other != name:
            raise InputError(f"{where}: has both {other} and {name}; delete one of them")
    return found


class UnnamedFile:
    """An open file without a name as a `Blob`."""

    def __init__(self, where: str, descriptor: int) -> None:
        """Takes over a descriptor."""
        self.where = where
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        os.close(self._descriptor)


def decompressed(blob: Blob, folder: Path) -> Blob:
    """The content of a blob if it is compressed, in an unnamed file on the folder's volume.

    Then the blob is closed. Another blob is returned as it is. Errors are those of `UnnamedFiles`.
    """
    if format_of(blob.read(0, MAGIC)) is None:
        return blob
    with closing(UnnamedFiles(folder)) as contents:
        contents.append(blob)
        content = UnnamedFile(blob.where, contents.duplicate())
    blob.close()
    return content


class UnnamedFiles:
    """The contents of compressed files, one after the other in one unnamed file.

    A process may have fewer files open than a folder has archives. The file is on the volume of the
    folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._parts: dict[str, tuple[int, int]] = {}
        self._compressed = 0
        self._lock = Lock()

    def open(self, where: str, open_file: Callable[[], Blob]) -> Blob:
        """The content of a file, which is decompressed when it is first opened, as by `append`."""
        with self._lock:
            if where not in self._parts:
                with closing(open_file()) as blob:
                    self._parts[where] = self.append(blob)
            start, size = self._parts[where]
            assert self._file is not None
            return Kept(Part(UnnamedFile(where, self._file.fileno()), where, start, size))

    def duplicate(self) -> int:
        """A descriptor that outlives this object."""
        assert self._file is not None
        return os.dup(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, blob: Blob) -> tuple[int, int]:
        """Decompresses a file; returns the first byte and the size of its content.

        Raises:
            InputError: it is damaged, or all together are too large.
            StorageError: the volume is full, or cannot be written.
        """
        self._compressed += blob.size
        if self._compressed > LARGEST_COMPRESSED:
            raise _too_large(blob.where)
        files.make_folder(self._folder)
        with files.storage_errors(self._folder):
            if self._file is None:
                # It is open until `close`.
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            start = self._file.tell()
            is_compressed = format_of(blob.read(0, MAGIC)) is not None
            as_it_is = (blob.read(place, _BLOCK) for place in range(0, blob.size, _BLOCK))
            for chunk in chunks(blob) if is_compressed else as_it_is:
                self._file.write(chunk)
                if self._file.tell() > LARGEST:
                    raise _too_large(blob.where)
            self._file.flush()
            return start, self._file.tell() - start


def _too_large(where: str) -> InputError:
    return InputError(
        f"{where}: is compressed, and each pod decompresses at most "
        f"{LARGEST_COMPRESSED >> 30} GiB into {LARGEST >> 30} GiB; decompress it to a tar first, "
        "or put it on a server or in a bucket and write source.http or source.s3 with cache, "
        "which decompresses it once"
    )


def _through(open_file: Callable[..., Any]) -> Callable[[BinaryIO], Iterator[bytes]]:
    def read(compressed: BinaryIO) -> Iterator[bytes]:
        with open_file(compressed) as file:
            while chunk := file.read(_BLOCK):
                yield chunk

    return read


def _xz(compressed: BinaryIO) -> Iterator[bytes]:
    """Reads streams of xz, between which and after which there may be bytes of padding."""
    stream, block = lzma.LZMADecompressor(), b""
    while block := block or compressed.read(_BLOCK):
        if stream.eof:
            block = block.lstrip(b"\0")
            if not block:
                continue
            stream = lzma.LZMADecompressor()
        yield stream.decompress(block)
        block = stream.unused_data
    if not stream.eof:
        raise EOFError("the last stream is cut off")


def _zstd(compressed: BinaryIO) -> Iterator[bytes]:
    """Reads frames of zstd, of which the last must be whole."""
    import zstandard

    frame = None
    while block := compressed.read(_ZSTD_BLOCK):
        while block:
            frame = frame or zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
            try:
                yield frame.decompress(block)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from None
            block, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise EOFError("the last frame is cut off")


# By the first bytes of a file: the name in messages, the program that decompresses it, what yields
# the content.
_FORMATS: dict[bytes, tuple[str, str, Callable[[BinaryIO], Iterator[bytes]]]] = {
    b"\x1f\x8b": ("gzip", "gunzip", _through(gzip.open)),
    b"BZh": ("bzip2", "bunzip2", _through(bz2.open)),
    b"\xfd7zXZ\0": ("xz", "unxz", _xz),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd", _zstd),
}


def _format(start: bytes) -> tuple[str, str, Callable[[BinaryIO], Iterator[bytes]]] | None:
    return next((one for magic, one in _FORMATS.items() if start.startswith(magic)), None)


def format_of(start: bytes) -> str | None:
    """The format of a compressed file by its first bytes; None if it is not compressed."""
    found = _format(start)
    return None if found is None else found[0]


def require_uncompressed(start: bytes, where: str) -> None:
    """Raises an `InputError` if the first bytes of a tar are those of a compressed file."""
    found = _format(start)
    name, program = ("zip", "unzip") if found is None else found[:2]
    if found is not None or start.startswith(b"PK\x03\x04"):
        raise InputError(
            f"{where}: is compressed ({name}), and images are read in place, by "
            f"offset; decompress it first by {program}"
        )


def chunks(blob: Blob) -> Iterator[bytes]:
    """Yields the content of a compressed blob; an `InputError` if it is damaged."""
    found = _format(blob.read(0, MAGIC))
    assert found is not None
    try:
        yield from found[2](io.BufferedReader(BlobFile(blob), _BLOCK))
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise InputError(
            f"{blob.where}: does not decompress: {error}; copy or download it again"
        ) from None

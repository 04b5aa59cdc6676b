"""A compressed archive, such as cifar-10-binary.tar.gz, decompressed into an unnamed file.

Images are read by offset, which a compressed file does not allow. A small one is decompressed onto
the dataset's volume, by index and by each pod of pack; the file is gone with the process. A large
one would take longer than to decompress it once, so it is refused.
"""

import bz2
import gzip
import io
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import atomic_files
from imagenet_workloads.prepare.sources.source import Blob

# Of the compressed and of the decompressed file.
LARGEST_COMPRESSED, LARGEST = 1 << 30, 4 << 30
_BLOCK = 1 << 20
# A block of zstd may be a thousand times as large without compression.
_ZSTD_BLOCK = 64 << 10
MAGIC = 16
"""The first bytes of a file by which its format is known."""


class UnnamedFile:
    """An open file without a name as a `Blob`."""

    def __init__(self, where: str, descriptor: int) -> None:
        """Takes over a descriptor."""
        self.where = where
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range."""
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        """Closes the file, which ends it."""
        os.close(self._descriptor)


def decompressed(blob: Blob, folder: Path) -> Blob:
    """The content of a blob if it is compressed and small, else the blob itself.

    Args:
        blob: any file; it is closed if another one is returned.
        folder: on the volume that gets the decompressed file.

    Raises:
        InputError: the file is damaged.
        StorageError: the volume is full, or cannot be written.
    """
    if format_of(blob.read(0, MAGIC)) is None or blob.size > LARGEST_COMPRESSED:
        return blob
    atomic_files.make_folder(folder)
    with atomic_files.telling_where(folder), tempfile.TemporaryFile(dir=folder) as file:
        for chunk in chunks(blob):
            file.write(chunk)
            if file.tell() > LARGEST:
                return blob
        file.flush()
        content = UnnamedFile(blob.where, os.dup(file.fileno()))
    blob.close()
    return content


def _through(open_file: Callable[..., Any]) -> Callable[[BinaryIO], Iterator[bytes]]:
    """A reader of a format of the standard library."""

    def read(compressed: BinaryIO) -> Iterator[bytes]:
        with open_file(compressed) as file:
            while chunk := file.read(_BLOCK):
                yield chunk

    return read


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


_FORMATS: dict[bytes, tuple[str, Callable[[BinaryIO], Iterator[bytes]]]] = {
    b"\x1f\x8b": ("gzip", _through(gzip.open)),
    b"BZh": ("bzip2", _through(bz2.open)),
    b"\xfd7zXZ\0": ("xz", _through(lzma.open)),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
}


def format_of(start: bytes) -> str | None:
    """The format of a compressed file by its first bytes; None if it is not compressed."""
    return next((name for magic, (name, _) in _FORMATS.items() if start.startswith(magic)), None)


def chunks(blob: Blob) -> Iterator[bytes]:
    """Yields the content of a compressed blob.

    Raises:
        InputError: it is damaged.
    """
    start = blob.read(0, MAGIC)
    read = next(one for magic, (_, one) in _FORMATS.items() if start.startswith(magic))
    try:
        yield from read(io.BufferedReader(_Reader(blob), _BLOCK))
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise InputError(
            f"{blob.where}: does not decompress: {error}; copy or download it again"
        ) from None


class _Reader(io.RawIOBase):
    """A blob from its start to its end."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes."""
        block = self._blob.read(self._position, len(buffer))
        buffer[: len(block)] = block
        self._position += len(block)
        return len(block)

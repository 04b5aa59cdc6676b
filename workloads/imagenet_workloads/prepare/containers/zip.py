"""Lists the members of a zip, and reads one: stored or deflated, of any size (zip64).

The standard library's zipfile keeps every member in memory (about 700 bytes each) and needs a file.
So this module reads the central directory in blocks, and a member by its local header (PKWARE's
APPNOTE 6.3.10). The local header of a zip that was written as a stream has no sizes: the end of a
deflated member shows where it ends.
"""

import struct
import zlib
from calendar import timegm
from collections.abc import Iterator
from typing import NamedTuple

from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.containers.archive import Kind, Member
from imagenet_workloads.prepare.stores.blob import Blob, DamagedImageError, Part, changed, readable

LOCAL, ENTRY, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_END64, _LOCATOR64 = b"PK\x06\x06", b"PK\x06\x07"
_LOCAL_HEADER = struct.Struct("<4s2xHHHHIIIHH")
_ENTRY_HEADER = struct.Struct("<4sBBHHHHHIIIHHHHHII")
_END_RECORD = struct.Struct("<4sHHHHIIH")
_END64_RECORD = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR = struct.Struct("<4sIQI")
_LONGEST_COMMENT = 0xFFFF
_BLOCK = 1 << 20

STORED, DEFLATED = 0, 8
_IS_ENCRYPTED, _IS_STREAMED, _IS_UTF8 = 1, 1 << 3, 1 << 11
_UNIX, _FAT = 3, 0
_NANOSECONDS = 10**9
_ZIP64, _UNICODE_PATH = 1, 0x7075
_FULL32, _FULL16 = 0xFFFFFFFF, 0xFFFF
# Bytes of a local header after its name: most have fewer, and the others cost a second read.
_EXTRA = 64


class _Directory(NamedTuple):
    """The place of the central directory, of so many bytes and entries.

    The offsets of a zip do not count the bytes before it, `shift`. `start` does.
    """

    start: int
    size: int
    entries: int
    shift: int


class ZipArchive:
    """A zip in a blob, as an `archive.Archive`."""

    format = "zip"

    def __init__(self, blob: Blob) -> None:
        self.blob = blob

    def members(self) -> Iterator[Member]:
        directory = _directory(self.blob)
        block, base, at, found = b"", directory.start, 0, 0
        end = directory.start + directory.size
        while base + at < end:
            size = _entry_size(block, at)
            if at + size > len(block):
                most = min(_BLOCK, end - base - at)
                block, base, at = _read(self.blob, base + at, most), base + at, 0
                size = _entry_size(block, at)
            if at + size > len(block) or not block.startswith(ENTRY, at):
                raise _damaged(self.blob, base + at)
            yield _member(block[at : at + size], directory.shift, self.blob, base + at)
            found += 1
            at += size
        # Without zip64, the number has 16 bits.
        if found not in (directory.entries, directory.entries | found & ~_FULL16):
            raise _damaged(self.blob, directory.start + directory.size)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of a member, checked by its local header.

        Raises:
            DamagedImageError: its bytes do not decompress, or their checksum is wrong.
        """
        method, flags, checksum, start, block = self._local(name, offset, _bound(size))
        held = block[start : start + _bound(size)]
        content = held[:size]
        if method != STORED:
            try:
                content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(held, size + 1)
            except zlib.error as error:
                raise DamagedImageError(f"does not decompress: {error}") from None
        if len(content) != size:
            raise DamagedImageError("is cut off in the archive")
        if not flags & _IS_STREAMED and zlib.crc32(content) != checksum:
            raise DamagedImageError("has another checksum than the archive says")
        return content

    def inflated(self, member: Member) -> Iterator[bytes] | None:
        """The content of a deflated member, checked by its checksum; None for a stored one."""
        is_stored = self._local(member.name, member.offset, 0)[0] == STORED
        return None if is_stored else self._chunks(member)

    def _chunks(self, member: Member) -> Iterator[bytes]:
        _, flags, checksum, start, _ = self._local(member.name, member.offset, 0)
        inflate, found, length = zlib.decompressobj(-zlib.MAX_WBITS), 0, 0
        position = member.offset + start
        while not inflate.eof:
            block = _read(self.blob, position, min(_BLOCK, self.blob.size - position))
            position += len(block)
            try:
                # An empty block is the end of a cut-off archive.
                chunk = inflate.decompress(block) if block else inflate.flush()
            except zlib.error as error:
                raise self._damaged_member(member, f"does not decompress: {error}") from None
            found, length = zlib.crc32(chunk, found), length + len(chunk)
            if length > member.size or not (block or inflate.eof):
                break
            yield chunk
        is_right = flags & _IS_STREAMED or found == checksum
        if length != member.size or not is_right:
            raise self._damaged_member(member, "has another length or checksum than it says")

    def _damaged_member(self, member: Member, what: str) -> InputError:
        return InputError(
            f"{self.blob.where}: {readable(member.name)} {what}: the archive is damaged; copy or "
            "download it again"
        )

    def part(self, member: Member) -> Part:
        """A stored member that is an archive."""
        method, _, _, start, _ = self._local(member.name, member.offset, 0)
        if method != STORED:
            raise InputError(
                f"{self.blob.where}: its inner archive {readable(member.name)} is compressed, and "
                "images are read in place, by offset; unpack the outer archive"
            )
        where = f"{self.blob.where}: {readable(member.name)}"
        return Part(self.blob, where, member.offset + start, member.size)

    def _local(self, name: str, offset: int, size: int) -> tuple[int, int, int, int, bytes]:
        """Method, flags, checksum, and where the data starts in bytes from the local header on."""
        wanted = _LOCAL_HEADER.size + len(name.encode("utf-8", "surrogateescape")) + _EXTRA + size
        block = _read(self.blob, offset, min(wanted, self.blob.size - offset))
        if len(block) < _LOCAL_HEADER.size or not block.startswith(LOCAL):
            raise changed(self.blob.where, f"{name} is not at byte {offset}")
        header = _LOCAL_HEADER.unpack_from(block)
        flags, method, checksum, (of_name, of_extra) = header[1], header[2], header[5], header[8:]
        start = _LOCAL_HEADER.size + of_name + of_extra
        raw = block[_LOCAL_HEADER.size : _LOCAL_HEADER.size + of_name]
        stated = _text(raw, flags, block[_LOCAL_HEADER.size + of_name : start])
        if not any(f"/{name}".endswith(f"/{_path(stated, is_fat)}") for is_fat in (False, True)):
            raise changed(self.blob.where, f"{name} is not at byte {offset}")
        if of_extra > _EXTRA:
            block = _read(self.blob, offset, min(start + size, self.blob.size - offset))
        return method, flags, checksum, start, block


def _bound(size: int) -> int:
    """The most bytes of a member of this size, stored or deflated."""
    return size + size // 1000 + 64


def _entry_size(block: bytes, at: int) -> int:
    """The bytes of an entry; more than the block has if its header is not whole."""
    if at + _ENTRY_HEADER.size > len(block):
        return len(block) + 1
    name, extra, comment = struct.unpack_from("<HHH", block, at + 28)
    return int(_ENTRY_HEADER.size + name + extra + comment)


def _member(entry: bytes, shift: int, blob: Blob, position: int) -> Member:
    (_, _, system, _, flags, method, time, date, _, held, size, of_name, of_extra, _, _, _, mode,
     offset) = _ENTRY_HEADER.unpack_from(entry)  # fmt: skip
    name_end = _ENTRY_HEADER.size + of_name
    if _FULL32 in (held, size, offset):
        extra = entry[name_end : name_end + of_extra]
        try:
            size, _, offset = _zip64(extra, size, held, offset)
        except struct.error:
            raise _damaged(blob, position) from None
    extra = entry[name_end : name_end + of_extra]
    raw = _text(entry[_ENTRY_HEADER.size : name_end], flags, extra)
    name = _path(raw, is_fat=system == _FAT)
    kinds = {0o040000: Kind.FOLDER, 0o120000: Kind.LINK, 0o100000: Kind.FILE, 0: Kind.FILE}
    mode = mode >> 16 if system == _UNIX else 0
    kind = Kind.FOLDER if name.endswith("/") else kinds.get(mode & 0o170000, Kind.OTHER)
    if kind is Kind.FILE and flags & _IS_ENCRYPTED:
        kind = Kind.ENCRYPTED
    elif kind is Kind.FILE and method not in (STORED, DEFLATED):
        kind = Kind.UNKNOWN_COMPRESSION
    moment = (
        1980 + (date >> 9), date >> 5 & 15, date & 31, time >> 11, time >> 5 & 63, (time & 31) * 2,
    )  # fmt: skip
    return Member(
        name.rstrip("/"),
        kind,
        shift + offset,
        size,
        timegm(moment) * _NANOSECONDS if 1 <= moment[1] <= 12 else 0,
    )


def _zip64(extra: bytes, *numbers: int) -> list[int]:
    """The size, the compressed size and the offset, of which any may be in the zip64 field."""
    for kind, position, _ in _extra_fields(extra):
        if kind == _ZIP64:
            count = sum(number == _FULL32 for number in numbers)
            wide = iter(struct.unpack_from(f"<{count}Q", extra, position))
            return [next(wide) if number == _FULL32 else number for number in numbers]
    raise struct.error("no zip64 field")


def _extra_fields(extra: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields the kind of each extra field, where its content starts, and its length."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        yield kind, position + 4, length
        position += 4 + length


def _text(name: bytes, flags: int, extra: bytes = b"") -> str:
    """A name: that of Info-ZIP's field, else UTF-8, or the code page 437 that is prescribed."""
    for kind, position, length in _extra_fields(extra):
        # Of another name, the field is that of an older program that has changed the name since.
        is_of_name = extra[position + 1 : position + 5] == struct.pack("<I", zlib.crc32(name))
        if kind == _UNICODE_PATH and length > 5 and is_of_name:
            return extra[position + 5 : position + length].decode("utf-8", "surrogateescape")
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("utf-8", "surrogateescape") if flags & _IS_UTF8 else name.decode("cp437")


def _path(name: str, is_fat: bool) -> str:
    """A name as a path; some programs of Windows write backslashes."""
    if is_fat and "/" not in name:
        name = name.replace("\\", "/")
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    return name


def _directory(blob: Blob) -> _Directory:
    start = max(0, blob.size - _END_RECORD.size - _LONGEST_COMMENT - _LOCATOR.size)
    tail = _read(blob, start, blob.size - start)
    place = tail.rfind(END)
    if place < 0 or place + _END_RECORD.size > len(tail):
        raise InputError(
            f"{blob.where}: the zip has no central directory, so it is truncated; copy or download "
            "it again"
        )
    _, disk, _, _, entries, size, offset, _ = _END_RECORD.unpack_from(tail, place)
    end = start + place
    locator = place - _LOCATOR.size
    if locator >= 0 and tail.startswith(_LOCATOR64, locator):
        _, _, record, _ = _LOCATOR.unpack_from(tail, locator)
        block = _read(blob, record, _END64_RECORD.size)
        if len(block) < _END64_RECORD.size or not block.startswith(_END64):
            raise _damaged(blob, record)
        _, _, _, _, disk, _, _, entries, size, offset = _END64_RECORD.unpack(block)
        end = record
    if disk not in (0, _FULL16):
        raise InputError(
            f"{blob.where}: is one of several parts of a zip; join them by zip -s 0 --out"
        )
    shift = end - size - offset
    if shift < 0:
        raise _damaged(blob, end)
    return _Directory(offset + shift, size, entries, shift)


def _read(blob: Blob, offset: int, size: int) -> bytes:
    try:
        return blob.read(offset, size) if size > 0 else b""
    except OSError as error:
        raise WorkloadError(f"{blob.where}: cannot be read: {error.strerror}") from error


def _damaged(blob: Blob, position: int) -> InputError:
    return InputError(
        f"{blob.where}: no entry of a zip at byte {position}: the archive is damaged; copy or "
        "download it again"
    )

"""Lists the members of an uncompressed tar, or of a tar inside a tar, without reading their data.

The standard library's tarfile keeps every member in memory, about a kilobyte each. It does not
notice that an archive is cut off between two members. So this module reads one header block at a
time, by offset. Formats: v7, ustar, GNU (long names, base-256 numbers) and pax, as in
https://www.gnu.org/software/tar/manual/html_node/Standard.html and POSIX.1-2017 pax.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.containers.archive import Kind, Member
from imagenet_workloads.prepare.stores.blob import Blob, Part, changed, readable

BLOCK = 512
NANOSECONDS = 10**9
# A path or pax record longer than this is damage, not a name.
LONGEST_EXTENSION = 1 << 20

_ZERO_BLOCK = bytes(BLOCK)

_KINDS = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"7": Kind.FILE,
    b"1": Kind.LINK,
    b"2": Kind.LINK,
    b"5": Kind.FOLDER,
    b"D": Kind.FOLDER,
    b"S": Kind.SPARSE,
    # Devices, pipes, the archive's label, the rest of a file from another volume.
    b"3": Kind.OTHER,
    b"4": Kind.OTHER,
    b"6": Kind.OTHER,
    b"V": Kind.OTHER,
    b"M": Kind.OTHER,
}
_EXTENSIONS = frozenset((b"L", b"K", b"x", b"X", b"g"))

# No archive has so many bytes, and no clock so many seconds.
_DIGITS = 24
_COUNT = re.compile(rb"[0-9]{1,%d}" % _DIGITS)
_SECONDS = re.compile(rb"(-?)([0-9]{1,%d})(?:\.([0-9]*))?" % _DIGITS)


@dataclass
class _Override:
    """The fields of extension blocks that replace those of the next header."""

    name: bytes | None = None
    size: int | None = None
    mtime: int | None = None
    sparse: bool = False


class TarArchive:
    """A tar in a blob, as an `archive.Archive`."""

    format = "tar"

    def __init__(self, blob: Blob) -> None:
        self.blob = blob

    def members(self) -> Iterator[Member]:
        position, override = 0, _Override()
        while True:
            header = _read(self.blob, position, BLOCK)
            if header == _ZERO_BLOCK:
                return
            if not _sum_is_right(header):
                raise _damaged(self.blob, position)
            kind = header[156:157]
            size = _number(header[124:136], self.blob, position)
            # A negative size would move the walk back.
            if size < 0 or (kind in _EXTENSIONS and size > LONGEST_EXTENSION):
                raise _damaged(self.blob, position)
            if kind in _EXTENSIONS:
                data = _read(self.blob, position + BLOCK, size)
                if kind == b"L":
                    override.name = data.partition(b"\0")[0]
                elif kind in (b"x", b"X"):
                    _extend(override, data, self.blob, position)
                # K names a link's target. g sets defaults for all members, never a path or size of
                # an image.
                position += BLOCK + _padded(size)
                continue
            member = _member(header, size, override, self.blob, position)
            # Links and folders carry no data, whatever their size field says; a folder of an
            # incremental archive carries the names of its files.
            has_data = member.kind not in (Kind.LINK, Kind.FOLDER) or kind == b"D"
            held = member.size if has_data else 0
            if member.offset + held > self.blob.size:
                raise _cut_off(self.blob, f"its member {readable(member.name)} is not whole")
            yield member
            position = member.offset + _padded(held)
            override = _Override()

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of a member, checked against the header before them."""
        block = self.blob.read(offset - BLOCK, BLOCK + size)
        # A pax header may replace this size, but only from 8 GiB on.
        if len(block) != BLOCK + size or header_size(block[:BLOCK]) != size:
            raise changed(self.blob.where, f"{name} is not at byte {offset}")
        return block[BLOCK:]

    def part(self, member: Member) -> Part:
        where = f"{self.blob.where}: {readable(member.name)}"
        return Part(self.blob, where, member.offset, member.size)

    def inflated(self, member: Member) -> None:
        """None: no member is compressed."""


def header_size(header: bytes) -> int | None:
    """The size in a member's header block; None if it is not a header block."""
    if len(header) != BLOCK or header == _ZERO_BLOCK or not _sum_is_right(header):
        return None
    try:
        size = parse_number(header[124:136])
    except ValueError:
        return None
    return size if size >= 0 else None


def parse_number(field: bytes) -> int:
    """A numeric header field: octal digits, or GNU's base-256 if the first bit is set.

    Raises:
        ValueError: neither.
    """
    if field[0] & 0x80:
        value = int.from_bytes(field, "big", signed=False) - (0x80 << 8 * (len(field) - 1))
        # A first byte of 0xff marks a negative number in two's complement.
        return value if field[0] == 0x80 else int.from_bytes(field, "big", signed=True)
    digits = field.partition(b"\0")[0].strip()
    # int() accepts more than digits: a sign, "0o7", "1_0".
    if digits.isdigit():
        return int(digits, 8)
    if digits:
        raise ValueError(f"{digits!r} is no octal number")
    return 0


def _member(header: bytes, size: int, override: _Override, blob: Blob, position: int) -> Member:
    # POSIX: an unknown type means a file.
    kind = _KINDS.get(header[156:157], Kind.FILE)
    name = override.name
    if name is None:
        name = header[:100].partition(b"\0")[0]
        # Only ustar has a prefix here; GNU's format has other fields in its place.
        above = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
        name = above + b"/" + name if above else name
    if kind is Kind.FILE and name.endswith(b"/"):
        kind = Kind.FOLDER  # as v7 tars write folders
    if override.sparse:
        kind = Kind.SPARSE
    mtime = override.mtime
    if mtime is None:
        mtime = _number(header[136:148], blob, position) * NANOSECONDS
    text = name.decode("utf-8", "surrogateescape").rstrip("/")
    while text.startswith("./"):
        text = text[2:].lstrip("/")
    size = size if override.size is None else override.size
    return Member(text, kind, position + BLOCK, size, mtime)


def _extend(override: _Override, data: bytes, blob: Blob, position: int) -> None:
    """Takes the records of a pax header, each `LENGTH KEYWORD=VALUE` and a newline."""
    start = 0
    while start < len(data) and data[start]:
        length_text, _, _ = data[start : start + 20].partition(b" ")
        if not _COUNT.fullmatch(length_text) or int(length_text) <= len(length_text) + 2:
            raise _damaged(blob, position)
        end = start + int(length_text)
        keyword, equals, value = data[start + len(length_text) + 1 : end - 1].partition(b"=")
        if end > len(data) or data[end - 1 : end] != b"\n" or not equals:
            raise _damaged(blob, position)
        start = end
        if keyword == b"path":
            override.name = value
        elif keyword == b"size":
            if not _COUNT.fullmatch(value):
                raise _damaged(blob, position)
            override.size = int(value)
        elif keyword == b"mtime":
            seconds = _SECONDS.fullmatch(value)
            if seconds is None:
                raise _damaged(blob, position)
            sign, whole, fraction = seconds.groups(default=b"")
            mtime = int(whole) * NANOSECONDS + int(fraction[:9].ljust(9, b"0"))
            override.mtime = -mtime if sign else mtime
        elif keyword.startswith(b"GNU.sparse."):
            override.sparse = True


def _read(blob: Blob, position: int, size: int) -> bytes:
    if position + size > blob.size:
        raise _cut_off(blob, "it has no end-of-archive mark")
    try:
        data = blob.read(position, size)
    except OSError as error:
        raise WorkloadError(f"{blob.where}: cannot be read: {error.strerror}") from error
    if len(data) != size:
        raise _cut_off(blob, "it ends early")
    return data


def _number(field: bytes, blob: Blob, position: int) -> int:
    """A size or a time; one before 1970 is negative."""
    try:
        return parse_number(field)
    except ValueError:
        raise _damaged(blob, position) from None


def _sum_is_right(header: bytes) -> bool:
    """Whether the checksum is right: the sum of the bytes, with its own bytes as spaces."""
    try:
        stated = parse_number(header[148:156])
    except ValueError:
        return False
    # The lower half of Adler-32 is 1 + the sum of the bytes, modulo 65,521: more than 256 bytes
    # can have. It takes a tenth of the time of sum().
    halves = zlib.adler32(header[:256]), zlib.adler32(header[256:])
    whole = sum((half & 0xFFFF) - 1 for half in halves)
    return whole - sum(header[148:156]) + 8 * 0x20 == stated


def _padded(size: int) -> int:
    return (size + BLOCK - 1) // BLOCK * BLOCK


def _damaged(blob: Blob, position: int) -> InputError:
    return InputError(
        f"{blob.where}: no tar header at byte {position}: the archive is damaged, "
        "or is not a tar; copy or download it again"
    )


def _cut_off(blob: Blob, what: str) -> InputError:
    return InputError(
        f"{blob.where}: {what}, so the archive is truncated "
        f"at byte {blob.size}; copy or download it again"
    )

"""The walk over a tar against the standard library's, and everything that is not a whole tar."""

import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.containers.archive import Kind, Member
from imagenet_workloads.prepare.containers.tar import (
    BLOCK,
    TarArchive,
    header_size,
    parse_number,
)
from support.blobs import BytesBlob
from support.pictures import tar

names = st.lists(
    st.text(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=150
    ).filter(lambda part: part not in (".", "..")),
    min_size=1,
    max_size=3,
).map("/".join)


def walk(content: bytes) -> list[Member]:
    return list(TarArchive(BytesBlob(content)).members())


@settings(max_examples=60)
@given(
    files=st.dictionaries(names, st.binary(max_size=1200), min_size=1, max_size=4),
    format=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    mtime=st.integers(0, 2**40),
)
def test_lists_what_tarfile_wrote(files: dict[str, bytes], format: int, mtime: int) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), mtime
            archive.addfile(member, io.BytesIO(content))
    content = buffer.getvalue()
    found = walk(content)
    assert [(m.name, m.kind, m.mtime) for m in found] == [
        (name, Kind.FILE, mtime * 10**9) for name in files
    ]
    assert [content[m.offset : m.offset + m.size] for m in found] == list(files.values())


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_joins_the_parts_of_long_names(format: int) -> None:
    name = "/".join(["d" * 60, "e" * 60, "f" * 30])
    assert [m.name for m in walk(tar({name: b"x", "./short": b"y"}, format))] == [name, "short"]


def test_keeps_names_that_are_not_utf8() -> None:
    name = b"caf\xe9.jpg".decode("utf-8", "surrogateescape")
    assert [m.name for m in walk(tar({name: b""}))] == [name]


def test_takes_times_with_fractions_from_pax() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("a")
        member.pax_headers = {"mtime": "12.000000005"}
        archive.addfile(member)
    assert walk(buffer.getvalue())[0].mtime == 12_000_000_005


def test_tells_folders_links_and_others_apart() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind in (
            ("d", tarfile.DIRTYPE), ("s", tarfile.SYMTYPE), ("h", tarfile.LNKTYPE),
            ("p", tarfile.FIFOTYPE), ("c", tarfile.CONTTYPE),
        ):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "target"
            archive.addfile(member)
    assert [(m.name, m.kind) for m in walk(buffer.getvalue())] == [
        ("d", Kind.FOLDER), ("s", Kind.LINK), ("h", Kind.LINK),
        ("p", Kind.OTHER), ("c", Kind.FILE),
    ]  # fmt: skip


def test_knows_folders_of_v7_by_their_slash_and_sparse_files_by_pax() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        old = tarfile.TarInfo("old/")
        old.type = tarfile.AREGTYPE
        archive.fileobj.write(old.tobuf(tarfile.USTAR_FORMAT))
        sparse = tarfile.TarInfo("sparse")
        sparse.pax_headers = {"GNU.sparse.major": "1"}
        archive.addfile(sparse)
    assert [(m.name, m.kind) for m in walk(buffer.getvalue())] == [
        ("old", Kind.FOLDER),
        ("sparse", Kind.SPARSE),
    ]


def test_stops_at_the_end_of_archive_mark() -> None:
    assert walk(tar({})) == []
    assert [m.name for m in walk(tar({"a": b"1"}) + b"rubbish" * 1000)] == ["a"]


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_an_archive_cut_off_anywhere_is_truncated(format: int) -> None:
    whole = tar({"n" * 120: b"x" * 700, "b": b"y" * 10}, format)
    end = whole.rstrip(b"\0")
    # Up to the first byte of the end-of-archive mark, also between two members.
    last = -(-len(end) // BLOCK) * BLOCK + BLOCK
    for length in range(0, last, 100):
        with pytest.raises(InputError, match=r"x\.tar: .*truncated at byte"):
            walk(whole[:length])


@pytest.mark.parametrize(
    ("at", "new"),
    [(0, b"Z"), (124, b"9"), (124, b"\x01"), (148, b"zz"), (136, b"!")],
)
def test_a_damaged_header_is_named_by_its_byte(at: int, new: bytes) -> None:
    content = bytearray(tar({"a": b"x", "b": b"y"}))
    content[2 * BLOCK + at : 2 * BLOCK + at + len(new)] = new
    with pytest.raises(InputError, match="no tar header at byte 1024"):
        walk(bytes(content))


def pax(records: bytes) -> bytes:
    """A pax header of these records, with the member before which it stands."""
    member = tarfile.TarInfo("pax")
    member.type, member.size = tarfile.XHDTYPE, len(records)
    return member.tobuf() + records.ljust(BLOCK, b"\0") + tar({"a": b"x"})


@pytest.mark.parametrize("records", [b"99 path=x\n", b"x path=1\n", b"9 size=x\n", b"5 ab\n"])
def test_damaged_pax_records_are_refused(records: bytes) -> None:
    with pytest.raises(InputError, match="no tar header at byte 0"):
        walk(pax(records))


def test_an_unknown_keyword_of_a_pax_header_is_passed_over() -> None:
    assert [m.name for m in walk(pax(b"6 a=b\n"))] == ["a"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"0000644\0", 0o644),
        (b"   644 \0", 0o644),
        (b"\0" * 8, 0),
        (b"\x80\0\0\0\0\0\x01\0", 256),
        (b"\xff" * 8, -1),
        (b"\x80" + b"\xff" * 11, 2**88 - 1),
    ],
)
def test_parses_octal_and_base_256(field: bytes, value: int) -> None:
    assert parse_number(field) == value


def header(size: bytes = b"", mtime: bytes = b"", kind: bytes = b"0") -> bytes:
    """The header block of a member, with its own bytes for numbers and a right checksum."""
    member = tarfile.TarInfo("a.jpg")
    member.type = kind
    block = bytearray(member.tobuf(tarfile.USTAR_FORMAT))
    for start, field in ((124, size), (136, mtime)):
        if field:
            block[start : start + 12] = field.ljust(12, b"\0")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def test_header_size_refuses_what_is_no_header() -> None:
    block = tar({"a": b"x" * 77})[:BLOCK]
    assert header_size(block) == 77
    assert header_size(b"\0" * BLOCK) is None
    assert header_size(b"\xff\xd8" * (BLOCK // 2)) is None
    assert header_size(block[:100]) is None
    assert header_size(header(size=b"\xff" * 12)) is None  # a negative size


def record(keyword: str, value: str) -> bytes:
    """One record of a pax header."""
    rest = f" {keyword}={value}\n".encode()
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length += 1
    return str(length).encode() + rest


NEGATIVE = [b"\xff" * 12, b"\xff" * 11 + b"\x00", b"-1", b"-1000", b"+1", b"0o7", b"1_0", b"1 1"]


@pytest.mark.parametrize("number", NEGATIVE)
@pytest.mark.parametrize("kind", [b"0", b"5", b"x", b"L", b"3"])
def test_a_size_that_is_no_count_is_damage(number: bytes, kind: bytes) -> None:
    with pytest.raises(InputError, match="no tar header at byte 0"):
        walk(header(size=number, kind=kind) + tar({"b": b"y"}))


@pytest.mark.parametrize("number", NEGATIVE[:2])
def test_a_time_may_be_before_1970(number: bytes) -> None:
    (first, _) = walk(header(mtime=number) + tar({"b": b"y"}))
    assert first.mtime < 0


@pytest.mark.parametrize("number", NEGATIVE[2:])
def test_a_time_that_is_no_count_is_damage(number: bytes) -> None:
    with pytest.raises(InputError, match="no tar header at byte 0"):
        walk(header(mtime=number) + tar({"b": b"y"}))


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("size", "-1"), ("size", "-512"), ("size", "+1"), ("size", "1_0"), ("size", " 1"),
        ("size", ""), ("size", "9" * 5000),
        ("mtime", "--1"), ("mtime", "-"), ("mtime", "NaN"), ("mtime", "sNaN"),
        ("mtime", "Infinity"), ("mtime", "-Infinity"), ("mtime", "1e999999999"),
        ("mtime", "1E99999"), ("mtime", ""), ("mtime", "."), ("mtime", "1_0"),
        ("mtime", "9" * 5000),
    ],
)  # fmt: skip
def test_a_number_of_a_pax_header_that_is_none_is_damage(keyword: str, value: str) -> None:
    with pytest.raises(InputError, match="no tar header at byte 0"):
        walk(pax(record(keyword, value)))


@settings(max_examples=300)
@given(st.data())
def test_no_bytes_of_a_header_hang_or_crash_the_walk(data: st.DataObject) -> None:
    content = bytearray(pax(record("mtime", "12.5") + record("size", "1")))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.sampled_from([0, BLOCK, 2 * BLOCK]))
        place = start + data.draw(st.integers(0, BLOCK - 1))
        content[place] = data.draw(st.integers(0, 255))
        # A right checksum leads the walk on.
        for block in (0, 2 * BLOCK):
            content[block + 148 : block + 156] = b" " * 8
            content[block + 148 : block + 156] = b"%06o\0 " % sum(content[block : block + BLOCK])
    try:
        found = walk(bytes(content))
    except InputError:
        return
    assert all(0 <= m.offset <= len(content) and m.size >= 0 and m.mtime >= 0 for m in found)


def test_pipes_and_devices_are_told_from_files_of_types_that_are_not_known() -> None:
    kinds = {b"3": Kind.OTHER, b"4": Kind.OTHER, b"6": Kind.OTHER, b"V": Kind.OTHER,
             b"Q": Kind.FILE}  # fmt: skip
    for kind, expected in kinds.items():
        assert [m.kind for m in walk(header(kind=kind) + tar({}))] == [expected]

"""RecordIO against MXNet's own: what we write it reads, and the bytes are those that it writes."""

import hashlib
import io
import struct
from pathlib import Path

import mxnet as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_workloads.records import recordio
from imagenet_workloads.records.format import LARGEST_JPEG, ShardWriter
from imagenet_workloads.records.recordio import FORMAT, MAGIC, count_records, encode
from support.stored_images import stored_image

MAGIC_BYTES = struct.pack("<I", MAGIC)
# Data in which the magic number comes often, at multiples of 4 and beside them.
payloads = st.lists(st.one_of(st.just(MAGIC_BYTES), st.binary(max_size=9)), max_size=12).map(
    b"".join
)


def write(path: Path, images: list[bytes]) -> ShardWriter:
    with (
        path.with_suffix(".rec").open("wb") as record,
        path.with_suffix(".idx").open("wb") as index,
    ):
        writer = FORMAT.writer(record, index)
        stored = [stored_image(image, 3 * key, key % 5) for key, image in enumerate(images)]
        # As pack does: a few at a time.
        for start in range(0, len(stored), 2):
            writer.append(stored[start : start + 2])
    return writer


@settings(max_examples=50, deadline=None)
@given(images=st.lists(payloads, min_size=1, max_size=5))
def test_writes_the_bytes_that_mxnet_writes(
    images: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("recordio")
    writer = write(folder / "ours", images)
    theirs = mx.recordio.MXIndexedRecordIO(str(folder / "t.idx"), str(folder / "t.rec"), "w")
    for key, image in enumerate(images):
        header = mx.recordio.IRHeader(0, key % 5, 3 * key, 0)
        theirs.write_idx(3 * key, mx.recordio.pack(header, image))
    theirs.close()
    content = (folder / "ours.rec").read_bytes()
    assert content == (folder / "t.rec").read_bytes()
    assert (folder / "ours.idx").read_bytes() == (folder / "t.idx").read_bytes()
    assert writer.bytes == len(content)
    assert writer.records == len(images)
    assert writer.sha256() == (
        hashlib.sha256(content).hexdigest(),
        hashlib.sha256((folder / "ours.idx").read_bytes()).hexdigest(),
    )


def test_mxnet_reads_embedded_magic_numbers_back(tmp_path: Path) -> None:
    images = [
        MAGIC_BYTES, MAGIC_BYTES * 3, b"ab" + MAGIC_BYTES * 2, b"abcd" + MAGIC_BYTES + b"e",
        b"", b"x" * 1000, b"abcd" + MAGIC_BYTES,
    ]  # fmt: skip
    write(tmp_path / "x", images)
    file = mx.recordio.MXIndexedRecordIO(str(tmp_path / "x.idx"), str(tmp_path / "x.rec"), "r")
    read = [mx.recordio.unpack(file.read_idx(key)) for key in file.keys]
    assert [image for _, image in read] == images
    assert [(header.label, header.id) for header, _ in read] == [
        (key % 5, 3 * key) for key in range(len(images))
    ]
    one_after_the_other = mx.recordio.MXRecordIO(str(tmp_path / "x.rec"), "r")
    assert [mx.recordio.unpack(one_after_the_other.read())[1] for _ in images] == images
    assert one_after_the_other.read() is None


def test_a_label_or_key_that_is_the_magic_number_is_split_too() -> None:
    record, index = io.BytesIO(), io.BytesIO()
    writer = FORMAT.writer(record, index)
    writer.append([stored_image(b"abcd", MAGIC, 1)])
    content = record.getvalue()
    assert content.count(MAGIC_BYTES) == 2  # of the two pieces; the key's own is dropped
    assert count_records(iter([content])) == 1


@given(images=st.lists(payloads, max_size=6), block=st.integers(1, 50))
def test_counts_records_whatever_the_blocks(images: list[bytes], block: int) -> None:
    content = b"".join(piece for image in images for piece in encode(b"", image))
    blocks = [content[start : start + block] for start in range(0, len(content), block)]
    assert count_records(iter(blocks)) == len(images)


@given(cut=st.integers(1, 200))
def test_a_file_cut_off_anywhere_is_noticed(cut: int) -> None:
    records = [
        b"".join(encode(b"", image)) for image in (b"abcd" + MAGIC_BYTES + b"efg", b"x" * 60)
    ]
    content = b"".join(records)
    kept = content[: len(content) - min(cut, len(content))]
    if kept in (b"", records[0]):
        assert count_records(iter([kept])) == (1 if kept else 0)
        return
    with pytest.raises(ValueError, match=r"ends inside a record"):
        count_records(iter([kept]))


def test_damage_is_noticed() -> None:
    whole = b"".join(encode(b"", b"abcd" + MAGIC_BYTES + b"efgh"))
    with pytest.raises(ValueError, match="does not begin with the magic number"):
        count_records(iter([b"\0" + whole[1:]]))
    with pytest.raises(ValueError, match="out of order"):
        count_records(iter([whole[12:]]))


def test_refuses_a_record_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LARGEST_JPEG + recordio.FORMAT.overhead < recordio.LARGEST_RECORD
    monkeypatch.setattr(recordio, "LARGEST_RECORD", 100)
    assert len(b"".join(encode(b"", b"x" * 100))) == 108
    with pytest.raises(ValueError, match="a record of 101 bytes; at most 100 fit"):
        encode(b"x", b"x" * 100)

"""TFRecord against a reader of our own that shares no code with the writer."""

import hashlib
import io
import struct
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.records.format import Box, StoredImage
from imagenet_workloads.records.tfrecord import (
    FORMAT,
    count_records,
    encode,
    encode_example,
)
from support import tfrecord
from support.stored_images import stored_image
from support.tfrecord import features

payloads = st.lists(st.binary(max_size=40), max_size=5)


def file_of(payloads: list[bytes]) -> bytes:
    return b"".join(piece for payload in payloads for piece in encode([payload]))


def in_blocks(content: bytes, length: int) -> list[bytes]:
    return [content[start : start + length] for start in range(0, len(content), length)]


@pytest.mark.parametrize(
    ("data", "crc"),
    # RFC 3720, B.4, and the check value of the algorithm.
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_the_readers_checksum_is_crc32c(data: bytes, crc: int) -> None:
    assert tfrecord.crc32c(data) == crc


def test_a_record_has_the_bytes_that_tensorflow_writes() -> None:
    # What tf.io.TFRecordWriter of 2.15 makes of b"abc".
    expected = bytes.fromhex("0300000000000000b099490e6162636e57f121")
    assert file_of([b"abc"]) == expected


@given(payloads=payloads)
def test_what_is_written_is_read_back(payloads: list[bytes]) -> None:
    assert list(tfrecord.records(file_of(payloads))) == payloads


@given(chunks=st.lists(st.binary(max_size=9), max_size=6))
def test_pieces_make_one_record(chunks: list[bytes]) -> None:
    assert b"".join(encode(chunks)) == b"".join(encode([b"".join(chunks)]))


@given(payloads=payloads, block=st.integers(1, 50))
def test_counts_records_whatever_the_blocks(payloads: list[bytes], block: int) -> None:
    assert count_records(iter(in_blocks(file_of(payloads), block))) == len(payloads)


@given(payloads=st.lists(st.binary(max_size=40), min_size=1, max_size=3), data=st.data())
def test_any_changed_byte_is_noticed(payloads: list[bytes], data: st.DataObject) -> None:
    content = bytearray(file_of(payloads))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    block = data.draw(st.integers(1, len(content)))
    with pytest.raises(ValueError, match=r"checksum of .* (length|data) is wrong"):
        count_records(iter(in_blocks(bytes(content), block)))


@given(payloads=payloads, cut=st.integers(1, 60))
def test_a_file_cut_off_anywhere_is_noticed(payloads: list[bytes], cut: int) -> None:
    content = file_of([*payloads, b"last"])
    kept = content[: len(content) - min(cut, len(file_of([b"last"])))]
    if kept == file_of(payloads):
        assert count_records(iter([kept])) == len(payloads)
        return
    with pytest.raises(ValueError, match=r"the file ends inside a record"):
        count_records(iter([kept]))


def test_a_length_that_is_not_true_is_never_followed() -> None:
    huge = struct.pack("<Q", 2**60)
    content = huge + struct.pack("<I", tfrecord.masked(huge)) + b"x"
    with pytest.raises(ValueError, match="the file ends inside a record"):
        count_records(iter([content]))


def test_the_writer_counts_and_sums_what_it_writes() -> None:
    file, index = io.BytesIO(), io.BytesIO()
    writer = FORMAT.writer(file, index)
    images = [stored_image(bytes([key]) * 50 * key, 3 * key, key % 3) for key in range(5)]
    writer.append(images[:2])
    writer.append([])
    writer.append(images[2:])
    content = file.getvalue()
    assert (writer.records, writer.bytes) == (5, len(content))
    assert writer.sha256() == tuple(
        hashlib.sha256(written).hexdigest() for written in (content, index.getvalue())
    )
    found = list(tfrecord.records(content))
    stored = [tfrecord.features(record)["image/encoded"] for record in found]
    assert stored == [[image.jpeg] for image in images]
    # Length, data, and a checksum of each.
    begins = accumulate((12 + len(record) + 4 for record in found[:-1]), initial=0)
    lines = [f"{3 * key}\t{begin}\n" for key, begin in enumerate(begins)]
    assert index.getvalue().decode() == "".join(lines)


edges = st.floats(0, 1, width=32)
names = st.text(st.characters(codec="utf-8"), max_size=200)
images = st.builds(
    StoredImage,
    key=st.integers(0, 2**32),
    label=st.integers(0, 30_000),
    class_name=names,
    class_words=names,
    name=st.binary(max_size=200),
    height=st.integers(1, 65_500),
    width=st.integers(1, 65_500),
    # Around the lengths at which varints grow by a byte.
    boxes=st.lists(st.builds(Box, edges, edges, edges, edges), max_size=20).map(tuple),
    jpeg=st.one_of(st.binary(max_size=300), st.integers(16_000, 16_500).map(bytes)),
)


def encoded_example(image: StoredImage) -> bytes:
    return b"".join(encode_example(image))


def test_the_features_are_those_of_imagenets_converters() -> None:
    assert features(encoded_example(stored_image(b"\xff\xd8jpeg", key=7, label=0))) == {
        "image/channels": [3],
        "image/class/label": [1],
        "image/class/synset": [b"n01440764"],
        "image/class/text": [b"tench"],
        "image/colorspace": [b"RGB"],
        "image/encoded": [b"\xff\xd8jpeg"],
        "image/filename": [b"n01440764_10026.JPEG"],
        "image/format": [b"JPEG"],
        "image/height": [375],
        "image/width": [500],
    }


@given(image=images)
def test_any_image_is_read_back(image: StoredImage) -> None:
    found = features(encoded_example(image))
    assert list(found) == sorted(found)
    assert found["image/encoded"] == [image.jpeg]
    assert found["image/class/label"] == [image.label + 1]
    assert found["image/class/synset"] == [image.class_name.encode()]
    assert found["image/class/text"] == [image.class_words.encode()]
    assert found["image/filename"] == [image.name]
    for name in ("xmin", "ymin", "xmax", "ymax"):
        written = [getattr(box, name) for box in image.boxes]
        assert found.get(f"image/object/bbox/{name}", []) == written
    labels = [image.label + 1] * len(image.boxes)
    assert found.get("image/object/bbox/label", []) == labels
    assert (found["image/height"], found["image/width"]) == ([image.height], [image.width])


@given(image=images)
def test_the_jpeg_is_a_piece_of_its_own(image: StoredImage) -> None:
    assert any(piece is image.jpeg for piece in encode_example(image))


@given(label=st.integers(0, 21_840), size=st.integers(1, 10**6), edge=st.integers(1, 65_500))
def test_imagenets_names_stay_within_the_estimate(label: int, size: int, edge: int) -> None:
    image = stored_image(bytes(size), label=label, height=edge, width=edge)
    record = encode(encode_example(image))
    assert 300 < sum(map(len, record)) - size <= FORMAT.overhead

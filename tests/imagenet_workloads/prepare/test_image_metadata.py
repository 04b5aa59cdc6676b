"""EXIF orientation and PNG chunks, found in the bytes."""

import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.prepare import image_metadata
from support.pictures import jpeg, pixels, png, tiff, webp, with_exif


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
def test_finds_the_orientation_of_a_jpeg(orientation: int, order: str) -> None:
    assert image_metadata.jpeg_orientation(with_exif(jpeg(0), orientation, order)) == orientation


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
def test_finds_an_orientation_that_is_stored_as_long(orientation: int, order: str) -> None:
    image = with_exif(jpeg(0), orientation, order, long=True)
    assert image_metadata.jpeg_orientation(image) == orientation


@pytest.mark.parametrize("mark", [b"", b"Exif\0\0"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_finds_the_orientation_of_a_webp(mark: bytes, order: str) -> None:
    image = webp(pixels(0), mark + tiff(7, order))
    assert image_metadata.orientation(image) == 7
    assert image_metadata.orientation(image[:-40]) == image_metadata.UPRIGHT
    assert image_metadata.orientation(webp(pixels(0))) == image_metadata.UPRIGHT


def test_finds_the_orientation_of_any_format() -> None:
    plain = png(pixels(0))
    turned = plain[:33] + chunk(b"eXIf", tiff(3)) + plain[33:]
    images = (with_exif(jpeg(0), 4), turned, plain, jpeg(0), b"", b"RIFF", b"no image")
    assert [image_metadata.orientation(image) for image in images] == [4, 3, 1, 1, 1, 1, 1]


def test_looks_behind_other_segments_and_fill_bytes() -> None:
    plain = jpeg(0)
    other = b"\xff\xe1" + struct.pack(">H", 2 + 28) + b"http://ns.adobe.com/xap/1.0/"
    with_both = with_exif(plain, 6)
    assert image_metadata.jpeg_orientation(plain[:2] + other + b"\xff\xff" + with_both[3:]) == 6
    assert image_metadata.jpeg_orientation(plain) == image_metadata.UPRIGHT


def test_pixels_that_look_like_exif_are_none() -> None:
    assert (
        image_metadata.jpeg_orientation(jpeg(0) + with_exif(jpeg(0), 6)[2:])
        == image_metadata.UPRIGHT
    )


@pytest.mark.parametrize(
    "block",
    [
        b"", b"II", b"XX*\0\x08\0\0\0", tiff(0), tiff(9), tiff(6)[:20],
        b"II*\0" + struct.pack("<I", 10**9), tiff(6).replace(b"\x03\0", b"\x07\0", 1),
        tiff(6, long=True)[:-6], tiff(0x10006, long=True), tiff(9, long=True),
    ],
)  # fmt: skip
def test_damaged_metadata_counts_as_upright(block: bytes) -> None:
    assert image_metadata.tiff_orientation(block) == image_metadata.UPRIGHT


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(noise: bytes) -> None:
    assert 1 <= image_metadata.jpeg_orientation(b"\xff\xd8\xff" + noise) <= 8
    assert 1 <= image_metadata.tiff_orientation(b"II*\0" + noise) <= 8
    assert 1 <= image_metadata.orientation(b"RIFF1234WEBPVP8X" + noise) <= 8


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_finds_the_exif_block_of_a_png() -> None:
    plain = png(pixels(0))
    head = 8 + 25
    assert image_metadata.png_exif_block(plain) is None
    assert image_metadata.png_exif_block(
        plain[:head] + chunk(b"eXIf", tiff(5)) + plain[head:]
    ) == tiff(5)
    assert image_metadata.png_exif_block(plain + b"more") is None


@given(st.data())
def test_any_damage_to_a_png_is_noticed(data: st.DataObject) -> None:
    whole = png(np.zeros((4, 4, 3), np.uint8))
    place = data.draw(st.integers(len(image_metadata.PNG_SIGNATURE), len(whole) - 1))
    with pytest.raises(ValueError, match="the PNG is truncated"):
        image_metadata.png_exif_block(whole[:place])
    damaged = bytearray(whole)
    damaged[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="PNG"):
        image_metadata.png_exif_block(bytes(damaged))


def test_opencv_agrees_on_the_orientation() -> None:
    image = with_exif(jpeg(3, 20, 40), 6)
    upright = cv2.imdecode(np.frombuffer(image, np.uint8), cv2.IMREAD_COLOR)
    assert upright is not None
    assert upright.shape == (40, 20, 3)
    assert image_metadata.jpeg_orientation(image) == 6

"""Orientation and size are read from an image without decoding it."""

import io
import struct
import tracemalloc
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imagenet_workloads.prepare import image_metadata
from imagenet_workloads.prepare.codecs import choose
from imagenet_workloads.prepare.codecs.codec import Recipe
from imagenet_workloads.prepare.stores.blob import DamagedImageError
from imagenet_workloads.prepare.transcode import transcode
from support.pictures import decode, jpeg, pixels, png, tiff, webp, with_exif
from support.sentences import says


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


HEIGHT, WIDTH = 64, 96
COLOURS = pixels(1, HEIGHT, WIDTH)


def by_opencv(suffix: str, *options: int, image: object = None) -> bytes:
    stored = COLOURS if image is None else image
    return cv2.imencode(suffix, np.asarray(stored), list(options))[1].tobytes()


def by_pillow(format: str, **options: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(COLOURS).save(file, format, **options)
    return file.getvalue()


GREY = COLOURS[:, :, 0]
IMAGES = {
    "jpeg": jpeg(1, HEIGHT, WIDTH),
    "jpeg, progressive": by_opencv(".jpg", cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
    "jpeg, with fill bytes": b"\xff\xd8\xff\xff" + with_exif(jpeg(1, HEIGHT, WIDTH), 1)[3:],
    "png": png(COLOURS),
    "webp, lossy": by_opencv(".webp", cv2.IMWRITE_WEBP_QUALITY, 80),
    "webp, lossless": by_opencv(".webp", cv2.IMWRITE_WEBP_QUALITY, 101),
    "webp, extended": by_pillow("WEBP", icc_profile=b"x" * 128),
    "bmp": by_opencv(".bmp"),
    "tiff": by_opencv(".tiff"),
    "tiff, compressed": by_pillow("TIFF", compression="tiff_lzw"),
    "tiff, of 64 bits": by_pillow("TIFF", big_tiff=True),
    "ppm": by_opencv(".ppm"),
    "ppm, as text": by_opencv(".ppm", cv2.IMWRITE_PXM_BINARY, 0),
    "pgm": by_opencv(".pgm", image=GREY),
    "pbm": by_opencv(".pbm", image=GREY),
    "ppm, with comments": by_opencv(".ppm").replace(b"P6\n", b"P6 # 9 9\n#8\n\t", 1),
    "pam": by_opencv(".pam"),
    "pfm": by_opencv(".pfm", image=COLOURS.astype(np.float32)),
    "sun raster": by_opencv(".ras"),
    "radiance": by_opencv(".hdr", image=COLOURS.astype(np.float32)),
    "jpeg 2000": by_pillow("JPEG2000"),
    "jpeg 2000, bare": by_pillow("JPEG2000", no_jp2=True),
}
READABLE = list(IMAGES.values())


@pytest.mark.parametrize("name", IMAGES)
def test_the_claimed_size_is_that_of_the_pixels(name: str) -> None:
    image = IMAGES[name]
    assert decode(image).shape == (HEIGHT, WIDTH, 3)
    assert image_metadata.claimed_size(image) == (HEIGHT, WIDTH)
    assert transcode(image, Recipe(None, 90), choose("opencv")).height == HEIGHT


def test_rows_from_the_top_and_the_header_of_os2_are_read() -> None:
    bmp = bytearray(IMAGES["bmp"])
    struct.pack_into("<i", bmp, 22, -HEIGHT)
    assert decode(bytes(bmp)).shape == (HEIGHT, WIDTH, 3)
    assert image_metadata.claimed_size(bytes(bmp)) == (HEIGHT, WIDTH)
    old = b"BM" + struct.pack("<I4xIIHHHH", 26 + 3 * WIDTH * HEIGHT, 26, 12, WIDTH, HEIGHT, 1, 24)
    old += bytes(3 * WIDTH * HEIGHT)
    assert decode(old).shape == (HEIGHT, WIDTH, 3)
    assert image_metadata.claimed_size(old) == (HEIGHT, WIDTH)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_tile_counts_where_it_is_larger(order: str) -> None:
    tags = {256: 8, 257: 9, 322: 30_000, 323: 20_000}
    entries = b"".join(struct.pack(order + "HHII", tag, 4, 1, value) for tag, value in tags.items())
    start = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "IH", 8, len(tags))
    assert image_metadata.claimed_size(start + entries) == (20_000, 30_000)
    assert image_metadata.claimed_size(start[:-2] + struct.pack(order + "H", 2) + entries) == (9, 8)


def larger(name: str) -> bytes:
    """An image whose header claims 20,000 by 20,000 pixels."""
    image, size = bytearray(IMAGES[name]), 20_000
    if name == "png":
        struct.pack_into(">II", image, 16, size, size)
        struct.pack_into(">I", image, 29, zlib.crc32(image[12:29]))
    elif name == "webp, extended":
        image[24:30] = 2 * (size - 1).to_bytes(3, "little")
    elif name == "bmp":
        struct.pack_into("<ii", image, 18, size, size)
    elif name == "sun raster":
        struct.pack_into(">II", image, 4, size, size)
    elif name == "jpeg 2000, bare":
        struct.pack_into(">II", image, 8, size, size)
    else:
        text = {"ppm": b"96 64", "pam": b"WIDTH 96\nHEIGHT 64", "radiance": b"-Y 64 +X 96"}[name]
        digits = text.replace(b"96", b"20000").replace(b"64", b"20000")
        return bytes(image).replace(text, digits, 1)
    return bytes(image)


@pytest.mark.parametrize(
    "name",
    ["png", "webp, extended", "bmp", "sun raster", "jpeg 2000, bare", "ppm", "pam", "radiance"],
)
def test_no_decoder_sees_an_image_that_claims_too_many_pixels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cv2, "imdecode", None)
    with pytest.raises(DamagedImageError, match="claims 20000x20000 pixels; at most 128000000"):
        transcode(larger(name), Recipe(64, 90), choose("opencv"))


@pytest.mark.parametrize("image", [b"GIF89a" + bytes(50), b"no image", b"\x76\x2f\x31\x01" * 9])
def test_no_decoder_sees_what_is_of_no_known_format(
    image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cv2, "imdecode", None)
    with pytest.raises(DamagedImageError, match=says("no image", "libjpeg or OpenCV")):
        transcode(image, Recipe(64, 90), choose("opencv"))


@given(image=st.sampled_from(READABLE), data=st.data())
def test_no_damage_makes_it_fail(image: bytes, data: st.DataObject) -> None:
    damaged = bytearray(image[: data.draw(st.integers(0, 200))])
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    size = image_metadata.claimed_size(bytes(damaged))
    assert size is None or min(size) >= 0


def test_a_directory_beyond_any_file_is_damage() -> None:
    assert image_metadata.claimed_size(b"II+\0" + struct.pack("<HHQ", 8, 0, 1 << 63)) is None


def test_a_directory_of_endless_length_is_read_to_the_end_of_the_file() -> None:
    tracemalloc.start()
    assert image_metadata.claimed_size(b"II+\0" + struct.pack("<HHQQ", 8, 0, 16, 1 << 63)) is None
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()

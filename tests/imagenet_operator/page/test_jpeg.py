"""Thumbnails: the picture stays, and every segment that could hold something else goes."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from imagenet_operator.page import jpeg
from support.pictures import decode
from support.report_pages import jpeg as picture
from support.report_pages import with_segments

PICTURE = picture(0, 1)
EXIF = b"Exif\0\0II*\0" + b"GPSLatitude 48.8584 N"
PNG = cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes()


def encoded(*options: int) -> bytes:
    return cv2.imencode(".jpg", decode(PICTURE), list(options))[1].tobytes()


def segment_of(content: bytes, code: int) -> int:
    return content.index(bytes((0xFF, code)))


@pytest.mark.parametrize("code", [0xE0, 0xE1, 0xE2, 0xED, 0xEE, 0xEF, 0xFE])
def test_metadata_go_and_the_picture_stays(code: int) -> None:
    found = jpeg.without_metadata(with_segments(PICTURE, (code, EXIF)))
    assert b"GPS" not in found
    assert found == jpeg.without_metadata(PICTURE)
    assert np.array_equal(decode(found), decode(PICTURE))


def test_what_follows_the_picture_goes() -> None:
    assert jpeg.without_metadata(PICTURE + b"GPS") == jpeg.without_metadata(PICTURE)


@pytest.mark.parametrize(
    "content",
    [
        encoded(cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
        encoded(cv2.IMWRITE_JPEG_RST_INTERVAL, 2),
        cv2.imencode(".jpg", np.zeros((9, 7), np.uint8))[1].tobytes(),
    ],
    ids=["progressive", "restart markers", "grey"],
)
def test_every_form_of_a_thumbnail(content: bytes) -> None:
    found = jpeg.without_metadata(content)
    assert np.array_equal(decode(found), decode(content))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a JPEG file"),
        (PNG, "is not a JPEG file"),
        (b"<svg onload=alert(1)>", "is not a JPEG file"),
        (PICTURE[:-2], "is not a complete JPEG file"),
        (PICTURE[:200], "is not a complete JPEG file"),
        (PICTURE[:2], "is not a complete JPEG file"),
        (b"\xff\xd8\xff\xd9", "has no picture"),
        (PICTURE[:2] + b"\xff\xe0\0\1" + PICTURE[2:], "is not a complete JPEG file"),
        (PICTURE.replace(b"\xff\xc0", b"\xff\xc3", 1), "has the segment C3"),
        (with_segments(PICTURE, (0xF0, b"")), "has the segment F0"),
        (PICTURE + bytes(jpeg.BYTES_MAXIMUM), "has more than 65,536 bytes"),
        (picture(0, 1, edge=1025), "has 1025x1025 pixels"),
    ],
)
def test_other_files_are_refused(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        jpeg.without_metadata(content)


def test_four_colours_are_refused() -> None:
    frame = segment_of(PICTURE, 0xC0)
    with pytest.raises(ValueError, match="neither grey nor coloured"):
        jpeg.without_metadata(PICTURE[: frame + 9] + b"\4" + PICTURE[frame + 10 :])

"""The boxes of one annotation: inside the image, or one error in words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.prepare.annotations import LARGEST, parse, upright
from imagenet_workloads.prepare.codecs import opencv
from imagenet_workloads.records.format import Box
from support.annotations import Named, annotation

BOMB = b'<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]><annotation>&y;</annotation>'
OUTSIDE = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>'


@pytest.mark.parametrize(
    ("edges", "expected", "clamped"),
    [
        ((8, 6, 16, 18), Box(0.25, 0.25, 0.5, 0.75), 0),
        ((0, 0, 32, 24), Box(0, 0, 1, 1), 0),
        ((-3, 6, 40.5, 18), Box(0, 0.25, 1, 0.75), 1),
        # n03127925_147.xml and others have xmin and xmax the wrong way round.
        ((16, 18, 8, 6), Box(0.25, 0.25, 0.5, 0.75), 0),
    ],
)
def test_edges_become_fractions_inside_the_image(
    edges: tuple[float, ...], expected: Box, clamped: int
) -> None:
    xmin, ymin, xmax, ymax = edges
    found = parse(annotation(Named("n01", (xmin, ymin, xmax, ymax))))
    assert found == (("n01",), (expected,), clamped, 0)


@pytest.mark.parametrize("edges", [(8, 6, 8, 18), (8, 6, 16, 6), (40, 6, 50, 18), (8, -9, 16, 0)])
def test_a_box_without_area_in_the_image_is_left_out(edges: tuple[int, int, int, int]) -> None:
    found = parse(annotation(Named("n01", edges), Named("n02", (0, 0, 16, 24))))
    assert found == (("n02",), (Box(0, 0, 0.5, 1),), 0, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not valid XML: no element found"),
        (b"<annotation><size>", "is not valid XML: no element found"),
        (b"\xff\xfe\0", "is not valid XML"),
        (b'<?xml version="1.0" encoding="no"?><annotation/>', "lacks width"),
        (b"<a><b/></a>", "begins with <a>, not <annotation>"),
        (b"<annotation>" * 5000, "nests elements deeper than 8"),
        (BOMB, "has a document type, which no annotation needs"),
        (OUTSIDE, "has a document type, which no annotation needs"),
        (b"x" * (LARGEST + 1), "has 65537 bytes; at most 65536 are read"),
        (annotation(width=0), "has an image of 0x24 pixels"),
        (annotation(height="1e9"), "has an image of 32x1e\\+09 pixels"),
        (annotation(width="nan"), "has a width that is no number: 'nan'"),
        (annotation(Named("a", (0, 0, "inf", 1))), "has a xmax that is no number: 'inf'"),
        (annotation(Named("a", (0, "NaN", 1, 1))), "has a ymin that is no number: 'NaN'"),
        (annotation(Named("a", (0, "", 1, 1))), "has a ymin that is no number: ''"),
        (annotation().replace(b"</size>", b"</size><object/>"), "lacks xmin"),
    ],
)
def test_anything_else_is_an_error_in_words(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(content)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
def test_no_edges_lead_out_of_the_image(edges: list[float]) -> None:
    xmin, ymin, xmax, ymax = edges
    found = parse(annotation(Named("n01", (xmin, ymin, xmax, ymax))))
    assert len(found.boxes) + found.empty == 1
    for box in found.boxes:
        assert 0 <= box.xmin < box.xmax <= 1
        assert 0 <= box.ymin < box.ymax <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_turns_as_the_pixels_do(orientation: int) -> None:
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[4:20, 8:16] = 255
    (box,) = upright((Box(0.1, 0.1, 0.2, 0.5),), orientation)
    ys, xs = np.nonzero(opencv.turned(pixels, orientation)[:, :, 0])
    height, width = opencv.turned(pixels, orientation).shape[:2]
    assert box == pytest.approx(
        (xs.min() / width, ys.min() / height, (xs.max() + 1) / width, (ys.max() + 1) / height)
    )

"""From an encoded image to uint8 pixels, by libjpeg-turbo (simplejpeg) and OpenCV.

If a part of a JPEG will be shrunk to half or less, the decoder shrinks it by 2, 4 or 8 first.
libjpeg's other ratios have no vector code and are slower than full decoding. A ValueError says that
an image is damaged, or is none.
"""

from typing import NamedTuple

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

_COLOURS = {3: "RGB", 1: "GRAY"}
_FACTORS = (8, 4, 2)


class Size(NamedTuple):
    """Of an image, in pixels."""

    height: int
    width: int


class Region(NamedTuple):
    """A part of an image, in its pixels."""

    top: int
    left: int
    height: int
    width: int


class JpegImage:
    """An encoded image of known size, with 3 channels of RGB or 1 of grey."""

    def __init__(self, encoded: bytes, channels: int, pixels: Pixels | None = None) -> None:
        """Read the header; images other than grey or colour JPEGs are decoded at once.

        `pixels` are the image, height x width x channels, if it is decoded already.
        """
        self._encoded, self._channels = encoded, channels
        self._pixels = pixels
        colours = None
        if pixels is None and simplejpeg.is_jpeg(encoded):
            height, width, colours, _ = simplejpeg.decode_jpeg_header(encoded)
        if colours is None or colours in ("CMYK", "YCCK"):
            if self._pixels is None:
                self._pixels = _decode_other(encoded, channels)
            height, width = self._pixels.shape[:2]
        self.size = Size(height, width)

    def pad(self, edge: int, fill: int) -> None:
        colour = (fill,) * self._channels
        padded = cv2.copyMakeBorder(
            self._decode(1), *(edge,) * 4, borderType=cv2.BORDER_CONSTANT, value=colour
        )
        self._pixels = padded.astype(np.uint8, copy=False).reshape(
            *padded.shape[:2], self._channels
        )
        self.size = Size(*padded.shape[:2])

    def resize(self, target: Size, *, antialias: bool = True) -> None:
        if target != self.size:
            self._pixels = self.crop(Region(0, 0, *self.size), target, antialias=antialias)
            self.size = target

    def crop(self, region: Region, target: Size, *, antialias: bool = True) -> Pixels:
        """Return a region, resized to (height, width, channels).

        `antialias` says whether the decoder may shrink it first.
        """
        factor = next(
            (
                factor
                for factor in _FACTORS
                if antialias
                and target.height * factor <= region.height
                and target.width * factor <= region.width
            ),
            1,
        )
        pixels = self._decode(factor)
        top, left, height, width = (
            min(edge // factor, limit) if factor > 1 else edge
            for edge, limit in zip(region, (*pixels.shape[:2], *pixels.shape[:2]), strict=True)
        )
        part = pixels[top : top + height, left : left + width]
        if part.shape[:2] != target:
            part = cv2.resize(
                part, (target.width, target.height), interpolation=cv2.INTER_LINEAR
            ).astype(np.uint8, copy=False)
        # OpenCV drops the axis of grey.
        return part.reshape(target.height, target.width, self._channels)

    def _decode(self, factor: int) -> Pixels:
        if self._pixels is not None:
            return self._pixels[::factor, ::factor]
        pixels: Pixels = simplejpeg.decode_jpeg(
            self._encoded,
            colorspace=_COLOURS[self._channels],
            # libjpeg's largest scale that leaves at least these is exactly `factor`.
            min_height=-(-self.size.height // factor),
            min_width=-(-self.size.width // factor),
        )
        return pixels


def _decode_other(encoded: bytes, channels: int) -> Pixels:
    colours = cv2.IMREAD_COLOR if channels == 3 else cv2.IMREAD_GRAYSCALE
    found = cv2.imdecode(np.frombuffer(encoded, np.uint8), colours)
    if found is None:
        raise ValueError("no decoder reads its image")
    pixels: Pixels = found.astype(np.uint8, copy=False)
    if channels == 1:
        return pixels[:, :, np.newaxis]
    return np.ascontiguousarray(pixels[:, :, ::-1])

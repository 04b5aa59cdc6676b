"""The codec that resizes a JPEG's planes by libturbojpeg, without conversion to RGB.

A JPEG has a luma plane (Y) and two chroma planes (Cb, Cr), mostly at half the resolution. Each is
decoded, resized at its own resolution and encoded again: half the values of RGB, and no colour
conversion.
"""

import threading
from typing import Any

import cv2
import numpy as np

from imagenet_workloads.prepare.codecs.codec import (
    Jpeg,
    Packed,
    Pixels,
    Recipe,
    reduction,
    sample_step,
    target_size,
)
from imagenet_workloads.prepare.codecs.opencv import OpenCvCodec
from imagenet_workloads.prepare.codecs.turbojpeg import Planes, Size, TurboJpeg, load

# Luma pixels for one chroma pixel, horizontally and vertically.
_COVERS = {"444": (1, 1), "422": (2, 1), "420": (2, 2), "440": (1, 2)}


class PlanesCodec:
    """Converts upright YCbCr JPEGs with common subsamplings; uses `OpenCvCodec` for others."""

    name = "planes"

    def __init__(self) -> None:
        """Load the library.

        Raises:
            LibraryMissingError: It is not installed.
        """
        self._library = load()
        self._of_thread = threading.local()
        self._others = OpenCvCodec()

    def recode(self, image: Jpeg, recipe: Recipe) -> Packed:
        """Decode, rotate, resize and encode a JPEG."""
        if not converts(image):
            return self._others.recode(image, recipe)
        target = target_size(image.height, image.width, recipe.resize)
        packed = self._bench().recode(image, target, recipe.quality)
        # Only one decoder reports damage.
        return packed or self._others.recode(image, recipe)

    def _bench(self) -> "_Bench":
        try:
            bench: _Bench = self._of_thread.bench
        except AttributeError:
            bench = self._of_thread.bench = _Bench(self._library)
        return bench


def converts(image: Jpeg) -> bool:
    """Whether `PlanesCodec` converts an image itself."""
    usual = image.colours == "YCbCr" and image.subsampling in _COVERS
    return usual and image.orientation == 1


def averaged_pixels(image: Jpeg, target: Size) -> int:
    """Return the decoded chroma pixels that become an image of (height, width) by averaging.

    Averaging takes much longer than linear interpolation.
    """
    factor = reduction(image.height, image.width, target)
    across, down = _COVERS[image.subsampling]
    stored = -(-image.height // (factor * down)), -(-image.width // (factor * across))
    resized = -(-target[0] // 2), -(-target[1] // 2)
    return 2 * stored[0] * stored[1] if _averages(stored, resized) else 0


class _Bench:
    """The buffers of one thread."""

    def __init__(self, library: Any) -> None:
        self._turbo = TurboJpeg(library)
        self._stored = Planes()
        self._resized = Planes()

    def recode(self, image: Jpeg, target: tuple[int, int], quality: int) -> Packed | None:
        """Make the JPEG of (height, width); None if the library warns or fails."""
        stored = self._decode(image, reduction(image.height, image.width, target))
        if stored is None:
            return None
        height, width = target
        half = (-(-height // 2), -(-width // 2))
        whole, blue, red = self._resized.lay_out((2 * half[0], 2 * half[1]), half)
        brightness = whole[:height, :width]
        for plane, resized in zip(stored, (brightness, blue, red), strict=True):
            _resize(plane, resized)
        # An odd size is padded by its last row and column.
        whole[:height, width:] = whole[:height, width - 1 : width]
        whole[height:] = whole[height - 1]
        jpeg = self._turbo.compress(self._resized, height, width, quality)
        return Packed(jpeg, height, width, _sample(brightness, blue, red))

    def _decode(self, image: Jpeg, factor: int) -> tuple[Pixels, Pixels, Pixels] | None:
        """Return the planes of a JPEG, scaled down by `factor`."""
        height, width = -(-image.height // factor), -(-image.width // factor)
        across, down = _COVERS[image.subsampling]
        small = (-(-height // down), -(-width // across))
        covered, blue, red = self._stored.lay_out((small[0] * down, small[1] * across), small)
        if not self._turbo.decompress(image.data, height, width, self._stored):
            return None
        return covered[:height, :width], blue, red


def _resize(plane: Pixels, resized: Pixels) -> None:
    if plane.shape == resized.shape:
        resized[:] = plane
        return
    height, width = resized.shape
    averages = _averages((plane.shape[0], plane.shape[1]), (height, width))
    how = cv2.INTER_AREA if averages else cv2.INTER_LINEAR
    cv2.resize(plane, (width, height), resized, interpolation=how)


def _averages(stored: Size, resized: Size) -> bool:
    """Whether a plane shrinks so much that linear interpolation would skip pixels.

    So does chroma that is stored at full resolution, if the image shrinks to less.
    """
    return stored[0] > 2 * resized[0] and stored[1] > 2 * resized[1]


def _sample(brightness: Pixels, blue: Pixels, red: Pixels) -> Pixels:
    """Return the points of the image on a regular grid, as RGB."""
    height, width = brightness.shape
    step = sample_step(height, width)
    if step == 1:
        blue, red = (
            plane.repeat(2, axis=0).repeat(2, axis=1)[:height, :width] for plane in (blue, red)
        )
    else:
        step -= step % 2
        brightness = brightness[::step, ::step]
        blue, red = (plane[:: step // 2, :: step // 2] for plane in (blue, red))
    ycrcb = np.empty((*brightness.shape, 3), np.uint8)
    ycrcb[:, :, 0], ycrcb[:, :, 1], ycrcb[:, :, 2] = brightness, red, blue
    return cv2.cvtColor(ycrcb, cv2.COLOR_YCrCb2RGB, ycrcb).astype(np.uint8, copy=False)

"""The faster codec: a JPEG's planes, from libturbojpeg, resized without going through RGB.

A JPEG stores brightness (Y) and two planes of colour (Cb, Cr), mostly at half the resolution.
Each is decoded, resized at its own resolution and encoded again: half the values of RGB, and no
conversion of colours on the way in or out.
"""

import cv2
import numpy as np

from imagenet_workloads.prepare.codecs.interface import (
    Jpeg,
    Packed,
    Pixels,
    Recipe,
    reduction,
    sample_step,
    target_size,
)
from imagenet_workloads.prepare.codecs.opencv import OpenCvCodec
from imagenet_workloads.prepare.codecs.turbojpeg import TurboJpeg

# How many pixels of brightness one of colour covers, across and down.
_COVERS = {"444": (1, 1), "422": (2, 1), "420": (2, 2), "440": (1, 2)}


class PlanesCodec:
    """Knows upright YCbCr JPEGs of the usual subsamplings; for others, `OpenCvCodec` steps in."""

    name = "planes"

    def __init__(self) -> None:
        """Loads the library.

        Raises:
            LibraryMissingError: it is not there.
        """
        self._turbo = TurboJpeg()
        self._others = OpenCvCodec()

    def recode(self, image: Jpeg, recipe: Recipe) -> Packed:
        """Decodes, turns upright, resizes and encodes a JPEG."""
        usual = image.colours == "YCbCr" and image.subsampling in _COVERS
        if not usual or image.orientation != 1:
            return self._others.recode(image, recipe)
        target = target_size(image.height, image.width, recipe.resize)
        factor = reduction(image.height, image.width, target)
        planes = self._decode(image, factor)
        if planes is None:
            # Whether it is damaged, and how, is for one decoder to say.
            return self._others.recode(image, recipe)
        half = (-(-target[0] // 2), -(-target[1] // 2))
        brightness = _resized(planes[0], target)
        blue, red = _resized(planes[1], half), _resized(planes[2], half)
        whole = _filled(brightness, (2 * half[0], 2 * half[1]))
        jpeg = self._turbo.compress((whole, blue, red), *target, recipe.quality)
        return Packed(jpeg, _sample(brightness, blue, red))

    def _decode(self, image: Jpeg, factor: int) -> tuple[Pixels, Pixels, Pixels] | None:
        """The planes of a JPEG shrunk by `factor`; None where the library warns or fails."""
        height, width = -(-image.height // factor), -(-image.width // factor)
        across, down = _COVERS[image.subsampling]
        small = (-(-height // down), -(-width // across))
        brightness = np.empty((small[0] * down, small[1] * across), np.uint8)
        blue, red = np.empty(small, np.uint8), np.empty(small, np.uint8)
        if not self._turbo.decompress(image.data, height, width, (brightness, blue, red)):
            return None
        return brightness[:height, :width], blue, red


def _resized(plane: Pixels, size: tuple[int, int]) -> Pixels:
    if plane.shape == size:
        return np.ascontiguousarray(plane)
    # Beyond a half, linear interpolation would leave out pixels; this is where colours that were
    # stored at full resolution come out at half.
    shrinks = plane.shape[0] > 2 * size[0] and plane.shape[1] > 2 * size[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return cv2.resize(plane, (size[1], size[0]), interpolation=how).astype(np.uint8, copy=False)


def _filled(plane: Pixels, size: tuple[int, int]) -> Pixels:
    """The plane with its last row and column repeated up to an even size."""
    down, across = size[0] - plane.shape[0], size[1] - plane.shape[1]
    if not down and not across:
        return plane
    return cv2.copyMakeBorder(plane, 0, down, 0, across, cv2.BORDER_REPLICATE).astype(
        np.uint8, copy=False
    )


def _sample(brightness: Pixels, blue: Pixels, red: Pixels) -> Pixels:
    """Points of the image on a regular grid, as RGB."""
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
    together = cv2.merge([brightness, red, blue])
    return cv2.cvtColor(together, cv2.COLOR_YCrCb2RGB).astype(np.uint8, copy=False)

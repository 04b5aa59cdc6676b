"""A 64-bit hash of what an image shows, alike for copies that were resized or encoded again.

It is the DCT hash of pHash: C. Zauner, "Implementation and Benchmarking of Perceptual Image Hash
Functions", 2010, section 3.2.1. Of the discrete cosine transform of the grey image the 8x8 lowest
frequencies count, without the first row and column: brightness and plain gradients say nothing
about the image. A bit says whether a coefficient is above the median of all.

Codecs make the thumbnail from the pixels that they encode. It has few points, because each one is
read from memory; rows cost more than columns. The transform is of integers, so that it has the same
bits on every machine.
"""

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from imagenet_workloads.prepare.codecs.codec import Pixels

NO_HASH = 0
"""The hash of an image without contrast, or of a plain gradient: it is like no other image."""

# The points of a thumbnail, of which each four are averaged.
_HEIGHT, _WIDTH, _FREQUENCIES = 40, 64, 8
_SCALE = 1 << 6


def _cosines(points: int) -> npt.NDArray[np.float64]:
    """The transform of so many points to the frequencies from 1 on, times _SCALE."""
    waves = np.outer(np.arange(1, _FREQUENCIES + 1), 2 * np.arange(points) + 1)
    cosines: npt.NDArray[np.float64] = np.rint(_SCALE * np.cos(np.pi / (2 * points) * waves))
    return cosines


_OF_ROWS, _OF_COLUMNS = _cosines(_HEIGHT // 2), _cosines(_WIDTH // 2).T
# The coefficient of a wave of 2 of 255 levels. Below it there is noise.
_LEAST = 2 * _SCALE**2 * (_HEIGHT // 2) * (_WIDTH // 2) / 4
_MEDIAN = _FREQUENCIES**2 // 2 - 1


def thumbnail(pixels: Pixels) -> Pixels:
    """The points of an image of which the hash is made, 40 x 64, with as many colours.

    The image is height x width x RGB, or height x width of its luma.
    """
    points = cv2.resize(pixels, (_WIDTH, _HEIGHT), interpolation=cv2.INTER_LINEAR)
    return points.astype(np.uint8, copy=False)


def perceptual_hashes(thumbnails: Sequence[Pixels]) -> list[int]:
    """The hash of each thumbnail; NO_HASH if it has too little contrast.

    They are computed together: for one image the calls would take longer than their work.
    """
    if not thumbnails:
        return []
    if all(one.ndim == 3 for one in thumbnails):
        # Images below each other are one image for OpenCV.
        grey = cv2.cvtColor(np.concatenate(thumbnails), cv2.COLOR_RGB2GRAY)
    else:
        grey = np.concatenate(
            [one if one.ndim == 2 else cv2.cvtColor(one, cv2.COLOR_RGB2GRAY) for one in thumbnails]
        )
    half = (_WIDTH // 2, len(grey) // 2)
    small = cv2.resize(grey, half, interpolation=cv2.INTER_AREA)
    # Doubles are exact for these integers.
    points = small.reshape(-1, _HEIGHT // 2, _WIDTH // 2).astype(np.float64)
    coefficients = (_OF_ROWS @ points @ _OF_COLUMNS).reshape(len(thumbnails), -1)
    median = np.partition(coefficients, _MEDIAN, axis=1)[:, _MEDIAN, np.newaxis]
    hashes = np.packbits(coefficients > median, axis=1).view(">u8").ravel()
    has_contrast = np.abs(coefficients).max(axis=1) >= _LEAST
    found: list[int] = np.where(has_contrast, hashes, NO_HASH).tolist()
    return found

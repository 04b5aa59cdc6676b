"""RandAugment: random operations of one strength on an image (Cubuk et al. 2019).

The operations and their ranges are torchvision's, but histograms are equalised as in OpenCV. Each
operation takes two random numbers: which one, and its direction.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from imagenet_workloads.data.jpeg import Pixels

STRONGEST = 30
MOST_OPERATIONS = 8
DRAWS = 2 * MOST_OPERATIONS

_GREY = np.array((0.299, 0.587, 0.114), np.float32)
_SMOOTH = np.array(((1, 1, 1), (1, 5, 1), (1, 1, 1)), np.float32) / 13
# Of the side, for a translation of the greatest strength.
_FARTHEST = 150 / 331


def rand_augment(
    pixels: Pixels, draws: Sequence[float], operations: int, magnitude: int, fill: int
) -> Pixels:
    """Return a changed image of the same shape.

    Args:
        pixels: (height, width, channels).
        draws: two numbers from 0 to below 1 for each operation.
        operations: how many, one after the other.
        magnitude: their strength, from 0 to STRONGEST.
        fill: the value of pixels that come from outside of the image.
    """
    strength = magnitude / STRONGEST
    for number in range(operations):
        which, direction = draws[2 * number : 2 * number + 2]
        operation = _BY_NUMBER[int(which * len(_BY_NUMBER))]
        signed = strength if direction < 0.5 else -strength
        changed = operation(pixels, signed, fill)
        pixels = np.asarray(changed, np.uint8).reshape(pixels.shape)
    return pixels


def _moved(pixels: Pixels, matrix: Any, fill: int) -> Any:
    """Return an image whose pixel (x, y) is that of `matrix` times (x, y, 1)."""
    height, width = pixels.shape[:2]
    return cv2.warpAffine(
        pixels,
        np.array(matrix, np.float64),
        (width, height),
        flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=(fill,) * 3,
    )


def _rotated(pixels: Pixels, signed: float, fill: int) -> Any:
    height, width = pixels.shape[:2]
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), 30 * signed, 1)
    return _moved(pixels, matrix, fill)


def _blended(pixels: Pixels, other: Any, factor: float) -> NDArray[np.float32]:
    """Return other + factor * (pixels - other), within 0 and 255."""
    other = np.asarray(other, np.float32)
    found: NDArray[np.float32] = np.clip(other + factor * (pixels - other), 0, 255)
    return found


def _grey(pixels: Pixels) -> NDArray[np.float32]:
    """Return (height, width, 1)."""
    if pixels.shape[2] == 1:
        return pixels.astype(np.float32)
    grey: NDArray[np.float32] = (pixels.astype(np.float32) @ _GREY)[:, :, np.newaxis]
    return grey


def _sharpened(pixels: Pixels, signed: float, fill: int) -> Any:
    smooth = pixels.copy()
    blurred = cv2.filter2D(pixels, -1, _SMOOTH).reshape(pixels.shape)
    smooth[1:-1, 1:-1] = blurred[1:-1, 1:-1]
    return _blended(pixels, smooth, 1 + 0.9 * signed)


def _posterized(pixels: Pixels, signed: float, fill: int) -> Any:
    bits = 8 - round(4 * abs(signed))
    return pixels & np.uint8(256 - (1 << (8 - bits)))


def _solarized(pixels: Pixels, signed: float, fill: int) -> Any:
    return np.where(pixels >= 255 * (1 - abs(signed)), 255 - pixels, pixels)


def _of_channels(change: Callable[[Pixels], Any]) -> Callable[[Pixels, float, int], Any]:
    return lambda pixels, signed, fill: np.stack(
        [change(pixels[:, :, channel]) for channel in range(pixels.shape[2])], axis=2
    )


def _stretched(plane: Pixels) -> Any:
    low, high = int(plane.min()), int(plane.max())
    if low == high:
        return plane
    return np.floor((plane.astype(np.float32) - low) * (255 / (high - low)))


OPERATIONS: Mapping[str, Callable[[Pixels, float, int], Any]] = {
    "identity": lambda pixels, signed, fill: pixels,
    "shear-x": lambda pixels, signed, fill: _moved(pixels, ((1, 0.3 * signed, 0), (0, 1, 0)), fill),
    "shear-y": lambda pixels, signed, fill: _moved(pixels, ((1, 0, 0), (0.3 * signed, 1, 0)), fill),
    "translate-x": lambda pixels, signed, fill: _moved(
        pixels, ((1, 0, int(_FARTHEST * signed * pixels.shape[1])), (0, 1, 0)), fill
    ),
    "translate-y": lambda pixels, signed, fill: _moved(
        pixels, ((1, 0, 0), (0, 1, int(_FARTHEST * signed * pixels.shape[0]))), fill
    ),
    "rotate": _rotated,
    "brightness": lambda pixels, signed, fill: _blended(pixels, 0, 1 + 0.9 * signed),
    "colour": lambda pixels, signed, fill: _blended(pixels, _grey(pixels), 1 + 0.9 * signed),
    "contrast": lambda pixels, signed, fill: _blended(
        pixels, _grey(pixels).mean(), 1 + 0.9 * signed
    ),
    "sharpness": _sharpened,
    "posterize": _posterized,
    "solarize": _solarized,
    "auto-contrast": _of_channels(_stretched),
    "equalize": _of_channels(cv2.equalizeHist),
}
"""Name → an operation on pixels, by its signed strength, -1 to 1, and the fill."""

_BY_NUMBER = tuple(OPERATIONS.values())

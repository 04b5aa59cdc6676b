"""How the images of a batch lie in memory: bytes or normalised numbers, filled in by the decoders.

A GPU normalises bytes itself and takes a quarter of the transfer. A framework on CPUs gets numbers,
by a table of the 256 values of each colour.
"""

from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from imagenet_workloads.data.jpeg import Pixels, Size


class Layout(Protocol):
    """The memory of a batch."""

    dtype: np.dtype[Any]

    def shape(self, size: Size, channels: int) -> tuple[int, ...]:
        """Return the shape of an image."""

    def put(self, array: NDArray[Any], place: int, pixels: Pixels) -> None:
        """Fill in one image of (height, width, channels)."""


class Bytes:
    """(images, height, width, channels), uint8."""

    dtype: np.dtype[Any] = np.dtype(np.uint8)

    def shape(self, size: Size, channels: int) -> tuple[int, ...]:
        return (*size, channels)

    def put(self, array: NDArray[Any], place: int, pixels: Pixels) -> None:
        array[place] = pixels


class Normalized:
    """(pixel - mean) / std in float32: (images, channels, height, width), or channels last."""

    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(
        self,
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
        *,
        channels_first: bool,
    ) -> None:
        """Take red, green, blue in 0..255; grey images take the first."""
        values = np.arange(256, dtype=np.float64)[:, np.newaxis]
        self._table = ((values - mean) / std).astype(np.float32)
        self._channels_first = channels_first

    def shape(self, size: Size, channels: int) -> tuple[int, ...]:
        return (channels, *size) if self._channels_first else (*size, channels)

    def put(self, array: NDArray[Any], place: int, pixels: Pixels) -> None:
        image, channels = array[place], pixels.shape[2]
        if not self._channels_first:
            table = np.ascontiguousarray(self._table[:, :channels]).reshape(256, 1, channels)
            cv2.LUT(np.ascontiguousarray(pixels), table, image)
            return
        for channel, plane in enumerate(cv2.split(pixels)):
            cv2.LUT(plane, np.ascontiguousarray(self._table[:, channel]), image[channel])

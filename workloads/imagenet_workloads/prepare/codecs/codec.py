"""What a codec is given and gives: JPEG in, resized JPEG and a sample of its pixels out."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

# A JPEG's edges have 16 bits; libjpeg stops a little earlier.
LONGEST_EDGE = 65500
# Beyond this an image would take more memory than a pod has; a damaged header easily says so.
MOST_PIXELS = 128_000_000
# The sample that mean and standard deviation are taken from has about so many points on the
# shorter edge, hundreds an image: images differ far more than that is off by. Where the edge has
# less than twice as many pixels, all are taken.
SAMPLE_EDGE = 16


class DamagedImageError(Exception):
    """An image that cannot be read without loss; its message says why."""


@dataclass(frozen=True)
class Recipe:
    """What to make of each image.

    Attributes:
        resize: length of the shorter edge in pixels; None leaves sizes alone.
        quality: of each JPEG that is encoded, 1 to 100.
    """

    resize: int | None
    quality: int


class Packed(NamedTuple):
    """One finished image.

    Attributes:
        jpeg: an RGB JPEG, upright.
        height: in pixels.
        width: likewise.
        sample: pixels of it on a regular grid, height x width x RGB.
    """

    jpeg: bytes
    height: int
    width: int
    sample: Pixels


class Jpeg(NamedTuple):
    """A JPEG, as its header describes it.

    Attributes:
        data: the file.
        height: in pixels, as stored.
        width: likewise.
        colours: `YCbCr`, `RGB`, `Gray`, `CMYK` or `YCCK`.
        subsampling: of the colours, such as `420`.
        orientation: by EXIF, 1 to 8; 1 is upright.
    """

    data: bytes
    height: int
    width: int
    colours: str
    subsampling: str
    orientation: int


class Codec(Protocol):
    """One way to make the JPEGs of a dataset."""

    @property
    def name(self) -> str:
        """Names it in keys and options."""

    def recode(self, image: Jpeg, recipe: Recipe) -> Packed:
        """Decodes, turns upright, resizes and encodes a JPEG.

        Raises:
            DamagedImageError: libjpeg reports an error or a warning.
        """


def target_size(height: int, width: int, resize: int | None) -> tuple[int, int]:
    """Height and width with the shorter edge at `resize`, rounded down as MXNet's im2rec does.

    Raises:
        DamagedImageError: a JPEG cannot be so large.
    """
    if resize is None:
        size = height, width
    elif height > width:
        size = height * resize // width, resize
    else:
        size = resize, width * resize // height
    if max(size) > LONGEST_EDGE or size[0] * size[1] > MOST_PIXELS:
        raise DamagedImageError(f"{width}x{height} pixels would become {size[1]}x{size[0]}")
    return size


def reduction(height: int, width: int, target: tuple[int, int]) -> int:
    """By how much to shrink while decoding: 1, 2, 4 or 8, leaving no edge below its target.

    libjpeg shrinks by these in the transform itself: faster than decoding all and, since it
    averages, better than the linear interpolation that does the rest.
    """
    for factor in (8, 4, 2):
        if -(-height // factor) >= target[0] and -(-width // factor) >= target[1]:
            return factor
    return 1


def sample_step(height: int, width: int) -> int:
    """The distance in pixels between the points of a sample."""
    return max(1, min(height, width) // SAMPLE_EDGE)

"""The interface of a codec: from a JPEG to a resized JPEG and a sample of its pixels."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from imagenet_workloads.prepare.stores.blob import DamagedImageError

Pixels = npt.NDArray[np.uint8]

# A JPEG's edges have 16 bits; libjpeg's limit is slightly lower.
LONGEST_EDGE = 65500
# A larger image would need more memory than a pod has; damaged headers often claim so.
MOST_PIXELS = 128_000_000
# The sample for mean and standard deviation has about so many points on the shorter edge, hundreds
# an image: its error is much smaller than the differences between images. If the edge has less than
# twice as many pixels, all are used.
SAMPLE_EDGE = 16


@dataclass(frozen=True)
class Recipe:
    """How each image is converted: the pixels of its shorter edge, and a quality of 1 to 100."""

    resize: int | None
    quality: int


class Packed(NamedTuple):
    """One converted image: an upright RGB JPEG.

    Attributes:
        sample: its pixels on a regular grid, height x width x RGB.
        original: height and width of the upright image before a resize.
        thumbnail: its points for the perceptual hash.
    """

    jpeg: bytes
    height: int
    width: int
    sample: Pixels
    original: tuple[int, int]
    thumbnail: Pixels


class Jpeg(NamedTuple):
    """A JPEG and its header.

    Attributes:
        height: as it is stored, in pixels; likewise the width.
        colours: `YCbCr`, `RGB`, `Gray`, `CMYK` or `YCCK`.
        subsampling: of the chroma, such as `420`.
        orientation: of EXIF, 1 to 8; 1 is upright.
    """

    data: bytes
    height: int
    width: int
    colours: str
    subsampling: str
    orientation: int


class Codec(Protocol):
    """Makes the JPEGs of a dataset."""

    @property
    def name(self) -> str:
        """The codec's name in keys and options."""

    def recode(self, image: Jpeg, recipe: Recipe) -> Packed:
        """Decodes, rotates, resizes and encodes a JPEG.

        Raises:
            DamagedImageError: libjpeg reports an error or a warning.
        """


def target_size(height: int, width: int, resize: int | None) -> tuple[int, int]:
    """Height and width with the shorter edge at `resize`, rounded down as in im2rec.

    Raises:
        DamagedImageError: it is too large for a JPEG.
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
    """The scale of decoding, 1, 2, 4 or 8, with no edge below its target.

    libjpeg scales by these in the DCT. This is faster than full decoding, and better than linear
    interpolation, because it averages.
    """
    for factor in (8, 4, 2):
        if -(-height // factor) >= target[0] and -(-width // factor) >= target[1]:
            return factor
    return 1


def sample_step(height: int, width: int) -> int:
    """The distance in pixels between the points of a sample."""
    return max(1, min(height, width) // SAMPLE_EDGE)

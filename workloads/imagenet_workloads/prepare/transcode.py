"""Decides what becomes of one image: passed through as it is, made anew, or refused as damaged.

The rules:

- every record holds an RGB JPEG, upright. An RGB JPEG passes through byte for byte where no
  resize is asked for; grey and CMYK JPEGs, PNGs and what else OpenCV reads are made into one,
  whatever their names say. Transparency is dropped.
- an EXIF orientation is always applied to the pixels: such an image is made anew even without a
  resize. No record has an orientation left for a reader to apply or to forget.
- an image is damaged where its header claims more pixels than fit into memory, or is of no format
  that is known; no decoder sees it. Likewise where libjpeg reports an error or a warning (half a
  picture is only a warning to it), where a PNG's checksums are wrong, or where nothing can read
  it. Images that pass through are decoded too, to know.
"""

import cv2
import numpy as np
import simplejpeg

from imagenet_workloads.prepare import image_metadata, image_size
from imagenet_workloads.prepare.codecs import opencv
from imagenet_workloads.prepare.codecs.codec import (
    MOST_PIXELS,
    Codec,
    DamagedImageError,
    Jpeg,
    Packed,
    Pixels,
    Recipe,
    target_size,
)
from imagenet_workloads.prepare.formats.format import LARGEST_JPEG
from imagenet_workloads.prepare.sources.source import Source

# No image of so few pixels takes more, whatever its format.
LARGEST_FILE = 1 << 30

_JPEG = b"\xff\xd8\xff"


def read_image(source: Source, name: str, offset: int, size: int) -> bytes:
    """The bytes of one image of a source.

    Raises:
        DamagedImageError: it is too large to be one.
        InputError: the source is not as it was when it was scanned.
        PermissionError: this image may not be read.
    """
    if size > LARGEST_FILE:
        raise DamagedImageError(f"has {size} bytes; at most {LARGEST_FILE} are read")
    return source.read(name, offset, size)


def transcode(data: bytes, recipe: Recipe, codec: Codec) -> Packed:
    """Makes one image ready for its record.

    Raises:
        DamagedImageError: with the reason.
    """
    packed = _from_jpeg(data, recipe, codec) if data[:3] == _JPEG else _from_other(data, recipe)
    if len(packed.jpeg) > LARGEST_JPEG:
        raise DamagedImageError(f"{len(packed.jpeg)} bytes do not fit into a record")
    return packed


def _from_jpeg(data: bytes, recipe: Recipe, codec: Codec) -> Packed:
    image = _header(data)
    if recipe.resize is None and image.colours in ("YCbCr", "RGB") and image.orientation == 1:
        pixels = opencv.decode(image)
        return Packed(data, image.height, image.width, opencv.sample(pixels))
    return codec.recode(image, recipe)


def _header(data: bytes) -> Jpeg:
    try:
        height, width, colours, subsampling = simplejpeg.decode_jpeg_header(data)
    except ValueError as error:
        raise DamagedImageError(str(error)) from None
    _require_few_pixels(height, width)
    return Jpeg(data, height, width, colours, subsampling, image_metadata.jpeg_orientation(data))


def _require_few_pixels(height: int, width: int) -> None:
    if height * width > MOST_PIXELS:
        raise DamagedImageError(f"claims {width}x{height} pixels; at most {MOST_PIXELS} are read")


def _from_other(data: bytes, recipe: Recipe) -> Packed:
    if not data:
        raise DamagedImageError("is empty")
    size = image_size.claimed(data)
    if size is None:
        raise DamagedImageError("is no image that libjpeg or OpenCV can read")
    _require_few_pixels(*size)
    try:
        orientation = image_metadata.orientation(data)
    except ValueError as error:
        raise DamagedImageError(str(error)) from None
    pixels = opencv.turned(_read_by_opencv(data), orientation)
    height, width = pixels.shape[:2]
    target = target_size(height, width, recipe.resize)
    return opencv.encode(pixels, target, recipe.quality)


def _read_by_opencv(data: bytes) -> Pixels:
    how = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), how)
    except cv2.error as error:
        raise DamagedImageError(f"OpenCV cannot read it: {error.err or error}") from None
    if pixels is None:
        raise DamagedImageError("is no image that libjpeg or OpenCV can read")
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)

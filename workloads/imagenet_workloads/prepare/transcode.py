"""Converts one image for its record: copies it, re-encodes it, or rejects it as damaged.

The rules:

- Every record has an upright RGB JPEG. Without a resize, an RGB JPEG is copied unchanged. Grey and
  CMYK JPEGs, PNGs, HEIC and other formats of OpenCV are converted, whatever their names are.
  Transparency is dropped.
- An EXIF orientation is always applied to the pixels, so such an image is re-encoded even without a
  resize. No record has an EXIF orientation.
- An image is damaged if its header claims too many pixels or its format is unknown; it is not
  decoded. It is also damaged if libjpeg reports an error or a warning, because a truncated image is
  only a warning. So is a PNG with wrong checksums, and an image that no decoder can read. Copied
  images are decoded too, as a check.
- Two warnings of libjpeg are harmless (`jpeg_warnings`). Such a JPEG is corrected first.
"""

import cv2
import numpy as np
import simplejpeg

from imagenet_workloads.prepare import heif, image_metadata, image_size, jpeg_warnings
from imagenet_workloads.prepare.codecs import opencv
from imagenet_workloads.prepare.codecs.codec import (
    MOST_PIXELS,
    Codec,
    Jpeg,
    Packed,
    Pixels,
    Recipe,
    target_size,
)
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.records.format import LARGEST_JPEG

# No image of so few pixels has more bytes, in any format.
LARGEST_FILE = 1 << 30


def read_image(source: Source, name: str, offset: int, size: int) -> bytes:
    """Return the bytes of one image of a source.

    Raises:
        DamagedImageError: It is too large.
        InputError: The source has changed since it was listed.
        PermissionError: This image cannot be read by this user.
    """
    if size > LARGEST_FILE:
        raise DamagedImageError(f"has {size} bytes; at most {LARGEST_FILE} are read")
    return source.read(name, offset, size)


def transcode(data: bytes, recipe: Recipe, codec: Codec) -> Packed:
    """Convert one image for its record.

    Raises:
        DamagedImageError: It is damaged; the message says why.
    """
    packed = _from_jpeg(data, recipe, codec) if is_jpeg(data) else _from_other(data, recipe)
    if len(packed.jpeg) > LARGEST_JPEG:
        raise DamagedImageError(f"{len(packed.jpeg)} bytes do not fit into a record")
    return packed


def is_jpeg(data: bytes) -> bool:
    """Whether an image's first bytes are those of a JPEG."""
    return data[:3] == b"\xff\xd8\xff"


def _from_jpeg(data: bytes, recipe: Recipe, codec: Codec) -> Packed:
    try:
        return _from_sound_jpeg(data, recipe, codec)
    except DamagedImageError:
        sound = jpeg_warnings.corrected(data, _warning)
        if sound is None:
            raise
    return _from_sound_jpeg(sound, recipe, codec)


def _warning(data: bytes) -> str | None:
    try:
        opencv.decode(header(data))
    except DamagedImageError as error:
        return str(error)
    return None


def _from_sound_jpeg(data: bytes, recipe: Recipe, codec: Codec) -> Packed:
    image = header(data)
    if recipe.resize is None and image.colours in ("YCbCr", "RGB") and image.orientation == 1:
        pixels = opencv.decode(image)
        return Packed(data, image.height, image.width, opencv.sample(pixels))
    return codec.recode(image, recipe)


def header(data: bytes) -> Jpeg:
    """Read the header of a JPEG.

    Raises:
        DamagedImageError: It cannot be read, or claims too many pixels.
    """
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
    pixels = heif.decode(data) if heif.is_heif(data) else _upright_by_opencv(data)
    height, width = pixels.shape[:2]
    target = target_size(height, width, recipe.resize)
    return opencv.encode(pixels, target, recipe.quality)


def _upright_by_opencv(data: bytes) -> Pixels:
    size = image_size.claimed(data)
    if size is None:
        raise DamagedImageError("is no image that libjpeg or OpenCV can read")
    _require_few_pixels(*size)
    try:
        orientation = image_metadata.orientation(data)
    except ValueError as error:
        raise DamagedImageError(str(error)) from None
    return opencv.turned(_read_by_opencv(data), orientation)


def _read_by_opencv(data: bytes) -> Pixels:
    how = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), how)
    except cv2.error as error:
        if error.code == cv2.Error.STS_NO_MEM:
            raise MemoryError(f"OpenCV: {error.err}") from None
        raise DamagedImageError(f"OpenCV cannot read it: {error.err or error}") from None
    if pixels is None:
        raise DamagedImageError("is no image that libjpeg or OpenCV can read")
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)

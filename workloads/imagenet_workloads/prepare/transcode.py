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
- Two warnings of libjpeg are harmless: an unknown JFIF revision, and extra bytes before a marker.
  libjpeg reports the first warning of an image alone, so such a JPEG is corrected, and has to
  decode without a warning then.
- pillow-heif decodes HEIC and HEIF, if it is installed (the extra `heic`). An image's rotation is a
  property of the container, and libheif applies it. The EXIF orientation of such a file repeats it
  (ISO/IEC 23008-12), so it is not applied once more.
"""

import re
from collections.abc import Iterator

import cv2
import numpy as np
import simplejpeg

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import image_metadata
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
from imagenet_workloads.prepare.codecs.perceptual_hash import thumbnail
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.stores.blob import DamagedImageError, readable
from imagenet_workloads.records.format import LARGEST_JPEG

# No image of so few pixels has more bytes, in any format.
LARGEST_FILE = 1 << 30


def read_image(source: Source, name: str, offset: int, size: int) -> bytes:
    """Read one image of a source.

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
    if is_jpeg(data):
        try:
            packed = _from_sound_jpeg(data, recipe, codec)
        except DamagedImageError:
            sound = _corrected_jpeg(data)
            if sound is None:
                raise
            packed = _from_sound_jpeg(sound, recipe, codec)
    else:
        pixels = decode_heif(data) if is_heif(data) else _decode_by_opencv(data)
        size = (pixels.shape[0], pixels.shape[1])
        packed = opencv.encode(pixels, size, target_size(*size, recipe.resize), recipe.quality)
    if len(packed.jpeg) > LARGEST_JPEG:
        raise DamagedImageError(f"{len(packed.jpeg)} bytes do not fit into a record")
    return packed


def is_jpeg(data: bytes) -> bool:
    """Whether an image's first bytes are those of a JPEG."""
    return data[:3] == b"\xff\xd8\xff"


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
        size = (image.height, image.width)
        return Packed(data, *size, opencv.sample(pixels), size, thumbnail(pixels))
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


def _decode_by_opencv(data: bytes) -> Pixels:
    """The upright pixels of an image that is neither a JPEG nor of HEIF."""
    if not data:
        raise DamagedImageError("is empty")
    size = image_metadata.claimed_size(data)
    if size is None:
        raise DamagedImageError("is no image that libjpeg or OpenCV can read")
    _require_few_pixels(*size)
    try:
        orientation = image_metadata.orientation(data)
    except ValueError as error:
        raise DamagedImageError(str(error)) from None
    how = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), how)
    except cv2.error as error:
        if error.code == cv2.Error.STS_NO_MEM:
            raise MemoryError(f"OpenCV: {error.err}") from None
        raise DamagedImageError(f"OpenCV cannot read it: {error.err or error}") from None
    if pixels is None:
        raise DamagedImageError("is no image that libjpeg or OpenCV can read")
    rgb = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)
    return opencv.turned(rgb, orientation)


HEIF_SUFFIXES = (".heic", ".heif")

_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"))
_INSTALL = "pip install pillow-heif"


def is_heif(data: bytes) -> bool:
    """Whether a file begins like one of HEIF."""
    return data[4:8] == b"ftyp" and data[8:12] in _BRANDS


def require_decoder(name: str, where: str) -> None:
    """Refuse an image that is named like one of HEIF if pillow-heif is missing."""
    try:
        import pillow_heif  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{where}: {readable(name)} is a HEIC image, and pillow-heif is missing ({error}); "
            f"{_INSTALL}, or convert such images to JPEG"
        ) from None


def decode_heif(data: bytes) -> Pixels:
    """The upright pixels of an image as height x width x RGB; transparency is dropped."""
    try:
        import pillow_heif
    except ImportError:
        raise DamagedImageError(
            f"is a HEIC image, and pillow-heif is missing; {_INSTALL}"
        ) from None
    # Pack has threads of its own.
    pillow_heif.options.DECODE_THREADS = 1
    try:
        image = pillow_heif.open_heif(data)
        width, height = image.size
        _require_few_pixels(height, width)
        return np.array(image.to_pillow().convert("RGB"), np.uint8)
    except (EOFError, OSError, RuntimeError, SyntaxError, ValueError) as error:
        raise DamagedImageError(f"libheif cannot read it: {error}") from None


# More of them are no slip of a program.
_MOST_WARNINGS = 8

_JFIF = b"JFIF\0"
_REVISION = re.compile(r"Warning: unknown JFIF revision number \d+\.\d+")
_EXTRANEOUS = re.compile(r"Corrupt JPEG data: (\d+) extraneous bytes before marker 0x([0-9a-f]{2})")


def _corrected_jpeg(data: bytes) -> bytes | None:
    """The JPEG that decodes without a warning; None if it has another kind of warning."""
    warning = _warning(data)
    for _ in range(_MOST_WARNINGS):
        if warning is None:
            return data
        for candidate in _candidates(data, warning):
            following = _warning(candidate)
            if following != warning:
                data, warning = candidate, following
                break
        else:
            return None
    return None


def _candidates(data: bytes, warning: str) -> Iterator[bytes]:
    """Yield the JPEG without the cause of a warning; libjpeg does not say which marker it is."""
    if _REVISION.fullmatch(warning):
        place = data.find(_JFIF)
        if place >= 0:
            version = place + len(_JFIF)
            yield data[:version] + b"\x01\x01" + data[version + 2 :]
    elif extraneous := _EXTRANEOUS.fullmatch(warning):
        count, marker = int(extraneous[1]), b"\xff" + bytes.fromhex(extraneous[2])
        place = data.find(marker, 2 + count)
        while place >= 0:
            yield data[: place - count] + data[place:]
            place = data.find(marker, place + 2)

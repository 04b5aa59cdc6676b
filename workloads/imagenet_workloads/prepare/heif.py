"""HEIC and HEIF images, which pillow-heif decodes if it is installed (the extra `heic`).

An image's rotation is a property of the container, and libheif applies it. The EXIF orientation of
such a file repeats it (ISO/IEC 23008-12), so it is not applied once more.
"""

import numpy as np

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.codecs.codec import MOST_PIXELS, Pixels
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.stores.blob import readable

SUFFIXES = (".heic", ".heif")

_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"))
_INSTALL = "pip install pillow-heif"


def is_heif(data: bytes) -> bool:
    """Whether a file begins like one of HEIF."""
    return data[4:8] == b"ftyp" and data[8:12] in _BRANDS


def require_decoder(name: str, where: str) -> None:
    """Checks that an image that is named like one of HEIF can be decoded.

    Raises:
        InputError: pillow-heif is missing.
    """
    try:
        import pillow_heif  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{where}: {readable(name)} is a HEIC image, and pillow-heif is missing ({error}); "
            f"{_INSTALL}, or convert such images to JPEG"
        ) from None


def decode(data: bytes) -> Pixels:
    """The upright pixels of an image as height x width x RGB; transparency is dropped.

    Raises:
        DamagedImageError: libheif cannot read it, it claims too many pixels, or pillow-heif is
            missing.
    """
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
        if height * width > MOST_PIXELS:
            raise DamagedImageError(
                f"claims {width}x{height} pixels; at most {MOST_PIXELS} are read"
            )
        return np.array(image.to_pillow().convert("RGB"), np.uint8)
    except (EOFError, OSError, RuntimeError, SyntaxError, ValueError) as error:
        raise DamagedImageError(f"libheif cannot read it: {error}") from None

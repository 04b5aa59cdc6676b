"""The faster codec: a JPEG's planes, from libturbojpeg, resized without going through RGB.

A JPEG stores brightness (Y) and two planes of colour (Cb, Cr), mostly at half the resolution.
Each is decoded, resized at its own resolution and encoded again; half the pixels of RGB, and no
conversion of colours on the way in or out. libturbojpeg is called by ctypes: of the bindings none
tells a warning from success in every case, and here a warning means damage.
"""

import ctypes
import threading
from typing import Any

import cv2
import numpy as np
import simplejpeg

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

LIBRARY = "libturbojpeg.so.0"

# turbojpeg.h: TJFLAG_STOPONWARNING
_STOP_ON_WARNING = 8192
# How many pixels of brightness one of colour covers, across and down.
_COVERS = {"444": (1, 1), "422": (2, 1), "420": (2, 2), "440": (1, 2)}


class LibraryMissingError(Exception):
    """libturbojpeg cannot be loaded."""


class PlanesCodec:
    """Knows upright YCbCr JPEGs of the usual subsamplings; for others, `OpenCvCodec` steps in."""

    name = "planes"

    def __init__(self) -> None:
        """Loads the library.

        Raises:
            LibraryMissingError: it is not there.
        """
        self._library = _load()
        self._others = OpenCvCodec()
        self._own = threading.local()

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
        brightness, blue, red = (
            _resized(plane, size) for plane, size in zip(planes, (target, half, half), strict=True)
        )
        jpeg = simplejpeg.encode_jpeg_yuv_planes(brightness, blue, red, quality=recipe.quality)
        return Packed(jpeg, _sample(brightness, blue, red))

    def _decode(self, image: Jpeg, factor: int) -> tuple[Pixels, Pixels, Pixels] | None:
        """The planes of a JPEG shrunk by `factor`; None where the library warns or fails."""
        height, width = -(-image.height // factor), -(-image.width // factor)
        across, down = _COVERS[image.subsampling]
        small = (-(-height // down), -(-width // across))
        # The library fills Y up to whole pixels of colour.
        planes = (
            np.empty((small[0] * down, small[1] * across), np.uint8),
            np.empty(small, np.uint8),
            np.empty(small, np.uint8),
        )
        addresses = (ctypes.c_void_p * 3)(*(plane.ctypes.data for plane in planes))
        status = self._library.tjDecompressToYUVPlanes(
            self._handle(), image.data, len(image.data), addresses, width, None, height,
            _STOP_ON_WARNING,
        )  # fmt: skip
        if status != 0:
            return None
        return planes[0][:height, :width], planes[1], planes[2]

    def _handle(self) -> int:
        """This thread's decompressor, made once: a handle serves one thread at a time."""
        handle = getattr(self._own, "handle", None)
        if handle is None:
            handle = self._own.handle = self._library.tjInitDecompress()
        if not isinstance(handle, int):
            raise MemoryError("libturbojpeg cannot make a decompressor")
        return handle


def _resized(plane: Pixels, size: tuple[int, int]) -> Pixels:
    if plane.shape == size:
        return np.ascontiguousarray(plane)
    # Beyond a half, linear interpolation would leave out pixels; this is where colours that were
    # stored at full resolution come out at half.
    shrinks = plane.shape[0] > 2 * size[0] and plane.shape[1] > 2 * size[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return cv2.resize(plane, (size[1], size[0]), interpolation=how).astype(np.uint8, copy=False)


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


def _load() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY)
        decompress = library.tjDecompressToYUVPlanes
        initialise = library.tjInitDecompress
    except (OSError, AttributeError) as error:
        raise LibraryMissingError(str(error)) from None
    initialise.restype = ctypes.c_void_p
    initialise.argtypes = []
    decompress.restype = ctypes.c_int
    decompress.argtypes = [
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int,
    ]  # fmt: skip
    return library

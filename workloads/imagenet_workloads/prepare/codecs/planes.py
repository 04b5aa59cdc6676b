"""The codec that resizes a JPEG's planes by libturbojpeg, without conversion to RGB.

A JPEG has a luma plane (Y) and two chroma planes (Cb, Cr), mostly at half the resolution. Each is
decoded, resized at its own resolution and encoded again: half the values of RGB, and no colour
conversion.

The library is called by ctypes, because PyTurboJPEG ignores warnings, which mean damage here, and
because simplejpeg's encoder of planes reads beyond planes of odd sizes.
"""

import ctypes
import threading
import weakref
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from imagenet_workloads.prepare.codecs.codec import (
    Jpeg,
    Packed,
    Pixels,
    Recipe,
    reduction,
    sample_step,
    target_size,
)
from imagenet_workloads.prepare.codecs.opencv import OpenCvCodec
from imagenet_workloads.prepare.codecs.perceptual_hash import thumbnail

LIBRARY = "libturbojpeg.so.0"

# turbojpeg.h
_TJSAMP_420 = 2
_TJFLAG_NOREALLOC = 1024
_TJFLAG_ACCURATEDCT = 4096
_TJFLAG_STOPONWARNING = 8192

_Pointer, _Int, _Long = ctypes.c_void_p, ctypes.c_int, ctypes.c_ulong
_Pointers, _Ints, _Longs = (ctypes.POINTER(kind) for kind in (_Pointer, _Int, _Long))

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "tjInitDecompress": (_Pointer, []),
    "tjInitCompress": (_Pointer, []),
    "tjDestroy": (_Int, [_Pointer]),
    "tjBufSize": (_Long, [_Int, _Int, _Int]),
    "tjDecompressToYUVPlanes": (
        _Int,
        [_Pointer, ctypes.c_char_p, _Long, _Pointers, _Int, _Ints, _Int, _Int],
    ),
    "tjCompressFromYUVPlanes": (
        _Int,
        [_Pointer, _Pointers, _Int, _Ints, _Int, _Int, _Pointers, _Longs, _Int, _Int],
    ),
}

Size = tuple[int, int]


class LibraryMissingError(Exception):
    """libturbojpeg cannot be loaded."""


def load(name: str = LIBRARY) -> Any:
    """The library with declared functions.

    Raises:
        LibraryMissingError: it is not installed, or lacks a function.
    """
    try:
        library = ctypes.CDLL(name)
        for function, (result, arguments) in _SIGNATURES.items():
            entry = getattr(library, function)
            entry.restype, entry.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise LibraryMissingError(str(error)) from None
    return library


def _allocate(size: int) -> Pixels:
    return np.empty(size, np.uint8)


class Planes:
    """Memory for the Y, Cb and Cr planes of one image after another."""

    def __init__(self, allocate: Callable[[int], Pixels] = _allocate) -> None:
        self._allocate = allocate
        self._memory = [allocate(0)] * 3
        self.addresses = (_Pointer * 3)()
        self.strides = (_Int * 3)()

    def lay_out(self, brightness: Size, colour: Size) -> tuple[Pixels, Pixels, Pixels]:
        """Uninitialised Y, Cb and Cr planes of these heights and widths.

        Earlier planes must not be used any more.
        """
        planes = []
        for number, (height, width) in enumerate((brightness, colour, colour)):
            memory = self._memory[number]
            if len(memory) < height * width:
                memory = self._memory[number] = self._allocate(height * width)
                self.addresses[number] = memory.ctypes.data
            self.strides[number] = width
            planes.append(memory[: height * width].reshape(height, width))
        first, second, third = planes
        return first, second, third


class TurboJpeg:
    """A decompressor and a compressor, for one thread, of the library that `load` returns."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._decompressor = self._handle("tjInitDecompress")
        self._compressor = self._handle("tjInitCompress")
        self._buffer = _allocate(0)
        self._buffer_fits: Size = (0, 0)

    def _handle(self, initialise: str) -> ctypes.c_void_p:
        address = getattr(self._library, initialise)()
        if not address:
            raise MemoryError(f"libturbojpeg: {initialise} failed")
        weakref.finalize(self, self._library.tjDestroy, address)
        return _Pointer(address)

    def decompress(self, jpeg: bytes, height: int, width: int, planes: Planes) -> bool:
        """Decodes a JPEG into its planes; says whether there was no error and no warning.

        libjpeg can scale to the height and width. Y is as large as its chroma covers.
        """
        status = self._library.tjDecompressToYUVPlanes(
            self._decompressor,
            jpeg,
            len(jpeg),
            planes.addresses,
            width,
            planes.strides,
            height,
            _TJFLAG_STOPONWARNING,
        )
        return bool(status == 0)

    def compress(self, planes: Planes, height: int, width: int, quality: int) -> bytes:
        """Encodes planes as a JPEG of this height and width with 4:2:0 subsampling.

        Y is twice as large as Cb, so padded for odd sizes.
        """
        if self._buffer_fits != (height, width):
            needed = self._library.tjBufSize(width, height, _TJSAMP_420)
            if len(self._buffer) < needed:
                self._buffer = _allocate(needed)
            self._buffer_fits = height, width
        address, size = _Pointer(self._buffer.ctypes.data), _Long(len(self._buffer))
        status = self._library.tjCompressFromYUVPlanes(
            self._compressor,
            planes.addresses,
            width,
            planes.strides,
            height,
            _TJSAMP_420,
            ctypes.byref(address),
            ctypes.byref(size),
            quality,
            _TJFLAG_NOREALLOC | _TJFLAG_ACCURATEDCT,
        )
        if status != 0:
            raise RuntimeError(f"libturbojpeg cannot encode {width}x{height} pixels")
        return self._buffer[: size.value].tobytes()


# Luma pixels for one chroma pixel, horizontally and vertically.
_COVERS = {"444": (1, 1), "422": (2, 1), "420": (2, 2), "440": (1, 2)}


class PlanesCodec:
    """Converts upright YCbCr JPEGs with common subsamplings; uses `OpenCvCodec` for others."""

    name = "planes"

    def __init__(self) -> None:
        self._library = load()
        self._of_thread = threading.local()
        self._others = OpenCvCodec()

    def recode(self, image: Jpeg, recipe: Recipe) -> Packed:
        if not converts(image):
            return self._others.recode(image, recipe)
        target = target_size(image.height, image.width, recipe.resize)
        try:
            bench: _Bench = self._of_thread.bench
        except AttributeError:
            bench = self._of_thread.bench = _Bench(self._library)
        packed = bench.recode(image, target, recipe.quality)
        # Only one decoder reports damage.
        return packed or self._others.recode(image, recipe)


def converts(image: Jpeg) -> bool:
    """Whether `PlanesCodec` converts an image itself."""
    usual = image.colours == "YCbCr" and image.subsampling in _COVERS
    return usual and image.orientation == 1


def averaged_pixels(image: Jpeg, target: Size) -> int:
    """The decoded chroma pixels that become an image of (height, width) by averaging.

    Averaging takes much longer than linear interpolation.
    """
    factor = reduction(image.height, image.width, target)
    across, down = _COVERS[image.subsampling]
    stored = -(-image.height // (factor * down)), -(-image.width // (factor * across))
    resized = -(-target[0] // 2), -(-target[1] // 2)
    return 2 * stored[0] * stored[1] if _averages(stored, resized) else 0


class _Bench:
    """The buffers of one thread."""

    def __init__(self, library: Any) -> None:
        self._turbo = TurboJpeg(library)
        self._stored = Planes()
        self._resized = Planes()

    def recode(self, image: Jpeg, target: tuple[int, int], quality: int) -> Packed | None:
        """The JPEG of (height, width); None if the library warns or fails."""
        stored = self._decode(image, reduction(image.height, image.width, target))
        if stored is None:
            return None
        height, width = target
        half = (-(-height // 2), -(-width // 2))
        whole, blue, red = self._resized.lay_out((2 * half[0], 2 * half[1]), half)
        brightness = whole[:height, :width]
        for plane, resized in zip(stored, (brightness, blue, red), strict=True):
            if plane.shape == resized.shape:
                resized[:] = plane
                continue
            small = (resized.shape[0], resized.shape[1])
            averages = _averages((plane.shape[0], plane.shape[1]), small)
            how = cv2.INTER_AREA if averages else cv2.INTER_LINEAR
            cv2.resize(plane, small[::-1], resized, interpolation=how)
        # An odd size is padded by its last row and column.
        whole[:height, width:] = whole[:height, width - 1 : width]
        whole[height:] = whole[height - 1]
        # Before the encoding, while the pixels are in the processor's caches.
        points = thumbnail(brightness)
        jpeg = self._turbo.compress(self._resized, height, width, quality)
        sample, original = _sample(brightness, blue, red), (image.height, image.width)
        return Packed(jpeg, height, width, sample, original, points)

    def _decode(self, image: Jpeg, factor: int) -> tuple[Pixels, Pixels, Pixels] | None:
        height, width = -(-image.height // factor), -(-image.width // factor)
        across, down = _COVERS[image.subsampling]
        small = (-(-height // down), -(-width // across))
        covered, blue, red = self._stored.lay_out((small[0] * down, small[1] * across), small)
        if not self._turbo.decompress(image.data, height, width, self._stored):
            return None
        return covered[:height, :width], blue, red


def _averages(stored: Size, resized: Size) -> bool:
    """Whether a plane shrinks so much that linear interpolation would skip pixels.

    So does chroma that is stored at full resolution, if the image shrinks to less.
    """
    return stored[0] > 2 * resized[0] and stored[1] > 2 * resized[1]


def _sample(brightness: Pixels, blue: Pixels, red: Pixels) -> Pixels:
    """The points of the image on a regular grid, as RGB."""
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
    ycrcb = np.empty((*brightness.shape, 3), np.uint8)
    ycrcb[:, :, 0], ycrcb[:, :, 1], ycrcb[:, :, 2] = brightness, red, blue
    return cv2.cvtColor(ycrcb, cv2.COLOR_YCrCb2RGB, ycrcb).astype(np.uint8, copy=False)

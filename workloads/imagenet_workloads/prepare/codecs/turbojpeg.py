"""The functions of the system's libturbojpeg that `planes` needs, by ctypes.

It is called directly because PyTurboJPEG ignores warnings, which mean damage here, and because
simplejpeg's encoder of planes reads beyond planes of odd sizes.
"""

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from imagenet_workloads.prepare.codecs.codec import Pixels

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
    """Return the library with declared functions.

    Raises:
        LibraryMissingError: It is not installed, or lacks a function.
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
    """Memory for the Y, Cb and Cr planes of one image after another.

    Attributes:
        addresses: The addresses of the planes, for the library.
        strides: Their strides, for the library.
    """

    def __init__(self, allocate: Callable[[int], Pixels] = _allocate) -> None:
        """Start empty; `allocate` returns the memory."""
        self._allocate = allocate
        self._memory = [allocate(0)] * 3
        self.addresses = (_Pointer * 3)()
        self.strides = (_Int * 3)()

    def lay_out(self, brightness: Size, colour: Size) -> tuple[Pixels, Pixels, Pixels]:
        """Return uninitialised Y, Cb and Cr planes of these heights and widths.

        Earlier planes must not be used any more.
        """
        first, second, third = (
            self._lay_out(number, height, width)
            for number, (height, width) in enumerate((brightness, colour, colour))
        )
        return first, second, third

    def _lay_out(self, number: int, height: int, width: int) -> Pixels:
        memory = self._memory[number]
        if len(memory) < height * width:
            memory = self._memory[number] = self._allocate(height * width)
            self.addresses[number] = memory.ctypes.data
        self.strides[number] = width
        return memory[: height * width].reshape(height, width)


class TurboJpeg:
    """A decompressor and a compressor, for one thread."""

    def __init__(self, library: Any) -> None:
        """Take the result of `load`."""
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
        """Decode a JPEG into its planes.

        Args:
            jpeg: The file.
            height: The wanted height, one that libjpeg can scale to.
            width: likewise.
            planes: The planes, Y as large as its chroma covers.

        Returns:
            Whether there was no error and no warning.
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
        """Encode planes as a JPEG with 4:2:0 subsampling.

        Args:
            planes: The planes, Y twice as large as Cb, so padded for odd sizes.
            height: The height of the image.
            width: likewise.
            quality: 1 to 100.
        """
        if self._buffer_fits != (height, width):
            self._make_room(height, width)
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

    def _make_room(self, height: int, width: int) -> None:
        needed = self._library.tjBufSize(width, height, _TJSAMP_420)
        if len(self._buffer) < needed:
            self._buffer = _allocate(needed)
        self._buffer_fits = height, width

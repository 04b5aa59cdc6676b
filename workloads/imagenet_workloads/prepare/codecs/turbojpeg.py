"""The few functions of the system's libturbojpeg that `planes` needs, by ctypes.

Called directly since, of the bindings, PyTurboJPEG lets a warning pass for success (and here a
warning means damage), and simplejpeg's encoder of planes reads beyond those of odd sizes.
"""

import ctypes
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from imagenet_workloads.prepare.codecs.interface import Pixels

LIBRARY = "libturbojpeg.so.0"

# turbojpeg.h
_TJSAMP_420 = 2
_TJFLAG_NOREALLOC = 1024
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
        [
            _Pointer,
            _Pointers,
            _Int,
            _Ints,
            _Int,
            _Int,
            _Pointers,
            ctypes.POINTER(_Long),
            _Int,
            _Int,
        ],
    ),
}


class LibraryMissingError(Exception):
    """libturbojpeg cannot be loaded."""


class TurboJpeg:
    """The library, with a decompressor and a compressor for each thread that calls."""

    def __init__(self, name: str = LIBRARY) -> None:
        """Loads it.

        Raises:
            LibraryMissingError: it is not there, or lacks a function.
        """
        try:
            self._library = ctypes.CDLL(name)
            for function, (result, arguments) in _SIGNATURES.items():
                entry = getattr(self._library, function)
                entry.restype, entry.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise LibraryMissingError(str(error)) from None
        self._of_thread = threading.local()

    def decompress(self, jpeg: bytes, height: int, width: int, planes: Sequence[Pixels]) -> bool:
        """Decodes a JPEG into its planes.

        Args:
            jpeg: the file.
            height: as wanted, one of those that libjpeg can shrink to.
            width: likewise.
            planes: Y, Cb and Cr to fill, contiguous; Y is as large as its colours cover.

        Returns:
            Whether it went without error or warning.
        """
        status = self._library.tjDecompressToYUVPlanes(
            self._own("tjInitDecompress"),
            jpeg,
            len(jpeg),
            _addresses(planes),
            width,
            _strides(planes),
            height,
            _TJFLAG_STOPONWARNING,
        )
        return bool(status == 0)

    def compress(self, planes: Sequence[Pixels], height: int, width: int, quality: int) -> bytes:
        """Encodes planes as a JPEG with 4:2:0 colours.

        Args:
            planes: Y, Cb and Cr, contiguous; Y twice as large as Cb, so beyond odd sizes.
            height: of the image.
            width: likewise.
            quality: 1 to 100.
        """
        buffer = self._buffer(self._library.tjBufSize(width, height, _TJSAMP_420))
        address, size = _Pointer(buffer.ctypes.data), _Long(len(buffer))
        status = self._library.tjCompressFromYUVPlanes(
            self._own("tjInitCompress"),
            _addresses(planes),
            width,
            _strides(planes),
            height,
            _TJSAMP_420,
            ctypes.byref(address),
            ctypes.byref(size),
            quality,
            _TJFLAG_NOREALLOC,
        )
        if status != 0:
            raise RuntimeError(f"libturbojpeg cannot encode {width}x{height} pixels")
        return buffer[: size.value].tobytes()

    def _own(self, initialise: str) -> int:
        """This thread's handle of a kind, made at the first call."""
        handle = getattr(self._of_thread, initialise, None)
        if handle is None:
            address = getattr(self._library, initialise)()
            if not address:
                raise MemoryError(f"libturbojpeg: {initialise} failed")
            handle = _Handle(address)
            weakref.finalize(handle, self._library.tjDestroy, address)
            setattr(self._of_thread, initialise, handle)
        return int(handle.address)

    def _buffer(self, size: int) -> Pixels:
        buffer: Pixels | None = getattr(self._of_thread, "buffer", None)
        if buffer is None or len(buffer) < size:
            buffer = self._of_thread.buffer = np.empty(size, np.uint8)
        return buffer


class _Handle:
    """Lives as long as its thread does."""

    def __init__(self, address: int) -> None:
        self.address = address


def _addresses(planes: Sequence[Pixels]) -> Any:
    return (_Pointer * len(planes))(*(plane.ctypes.data for plane in planes))


def _strides(planes: Sequence[Pixels]) -> Any:
    return (_Int * len(planes))(*(plane.strides[0] for plane in planes))

"""The C library's heap, for programs that pack one image after the other.

The pixels of an image take a megabyte. By default, glibc gives such memory back to the kernel when
it is freed, and the kernel clears it page by page for the next image: a twentieth of pack's time.
"""

import ctypes

# mallopt(3). Larger blocks than the first have a mapping of their own: glibc's limit is 32 MiB.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _LARGEST_BLOCK = 128 << 20, 32 << 20


def keep_freed_memory() -> None:
    """Let freed memory stay with this process, for each of its threads; glibc alone has that."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)

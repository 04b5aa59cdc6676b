"""The codecs that a test takes one after the other, and a machine without libturbojpeg."""

from pathlib import Path

import pytest

needs_libturbojpeg = pytest.mark.libturbojpeg
"""For tests of what only the system's libturbojpeg does; `make test-planes` runs them."""

CODECS = ("opencv", pytest.param("planes", marks=needs_libturbojpeg))


def hide_libturbojpeg(folder: Path) -> tuple[str, str]:
    """Returns the variable with which a process cannot load libturbojpeg.

    Args:
        folder: is made; the loader looks here first, and finds a file that is no library.
    """
    folder.mkdir()
    (folder / "libturbojpeg.so.0").touch()
    return "LD_LIBRARY_PATH", str(folder)

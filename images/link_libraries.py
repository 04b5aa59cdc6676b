"""Gives MXNet's wheel the shared libraries that this machine lacks, from other wheels.

    .venv/bin/python images/link_libraries.py

`make install` runs it. libmxnet.so looks for libraries in its own folder first (RPATH): links in
that folder need no LD_LIBRARY_PATH. Images install the libraries' Debian packages instead.
"""

import ctypes
import importlib.util
import sys
from pathlib import Path

from imagenet_workloads.process.program import DEBIAN_PACKAGES

# Where wheels that are installed anyway keep each of them, relative to site-packages.
COPIES = {
    "libgomp.so.1": "scikit_learn.libs/libgomp-*.so.1*",
    "libquadmath.so.0": "numpy.libs/libquadmath-*.so.0*",
}


def system_has(library: str) -> bool:
    """Whether the dynamic loader finds a library by its name alone."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def link(packages: Path) -> list[str]:
    """Make the links; return the libraries that are neither on this machine nor in a wheel.

    Args:
        packages: The folder `site-packages`, with `mxnet` in it.
    """
    absent = []
    for library, pattern in COPIES.items():
        if system_has(library):
            continue
        copy = min(packages.glob(pattern), default=None)
        if copy is None:
            absent.append(library)
            continue
        place = packages / "mxnet" / library
        place.unlink(missing_ok=True)
        place.symlink_to(Path("..") / copy.relative_to(packages))
    return absent


def main() -> int:
    """Link into the MXNet of this environment; return the exit code."""
    package = importlib.util.find_spec("mxnet")
    assert package is not None and package.origin is not None, "MXNet is not installed here"
    absent = link(Path(package.origin).parents[1])
    if absent:
        needed = " ".join(DEBIAN_PACKAGES[library] for library in absent)
        print(f"{', '.join(absent)} is missing; type: apt-get install {needed}", file=sys.stderr)
    return int(bool(absent))


if __name__ == "__main__":
    sys.exit(main())

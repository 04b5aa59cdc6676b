"""Codecs, which convert images to RGB JPEGs: one module each.

`opencv` works on pixels by simplejpeg and OpenCV, and is always available. `planes` works on a
JPEG's luma and chroma planes by the system's libturbojpeg, and uses `opencv` for other images.
Which one is faster depends on the images (`faster`). Their bytes differ, so a dataset's key
includes the codec.
"""

from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.codecs.codec import Codec
from imagenet_workloads.prepare.codecs.opencv import OpenCvCodec
from imagenet_workloads.prepare.codecs.planes import PlanesCodec
from imagenet_workloads.prepare.codecs.turbojpeg import LibraryMissingError, load

OPENCV, PLANES = NAMES = ("opencv", "planes")


def choose(name: str) -> Codec:
    """Return a codec.

    Raises:
        WorkloadError: It needs libturbojpeg, which is not installed.
        InputError: There is no such codec.
    """
    if name == OPENCV:
        return OpenCvCodec()
    if name != PLANES:
        raise InputError(f"there is no codec called {name!r}; write {' or '.join(NAMES)}")
    try:
        return PlanesCodec()
    except LibraryMissingError as error:
        raise WorkloadError(
            f"the planes codec needs libturbojpeg: {error}; "
            "install the package libturbojpeg0, or choose the opencv codec"
        ) from None


def has_planes() -> bool:
    """Whether the library of `planes` is installed."""
    try:
        load()
    except LibraryMissingError:
        return False
    return True

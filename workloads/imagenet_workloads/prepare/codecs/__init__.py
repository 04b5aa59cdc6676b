"""Codecs, which convert images to RGB JPEGs: one module each.

`opencv` works on pixels by simplejpeg and OpenCV, and is always available. `planes` works on a
JPEG's luma and chroma planes by the system's libturbojpeg. It is faster, and uses `opencv` for
other images. Their bytes differ, so a dataset's key includes the codec.
"""

import logging

from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.codecs.codec import Codec
from imagenet_workloads.prepare.codecs.opencv import OpenCvCodec
from imagenet_workloads.prepare.codecs.planes import PlanesCodec
from imagenet_workloads.prepare.codecs.turbojpeg import LibraryMissingError

_log = logging.getLogger(__name__)


def choose(name: str) -> Codec:
    """Return the codec of an option: `opencv`, `planes`, or `auto` for the faster available one.

    Raises:
        WorkloadError: It needs libturbojpeg, which is not installed.
        InputError: There is no such codec.
    """
    if name == "opencv":
        return OpenCvCodec()
    if name not in ("auto", "planes"):
        raise InputError(f"there is no codec called {name!r}; write auto, opencv or planes")
    try:
        return PlanesCodec()
    except LibraryMissingError as error:
        if name == "auto":
            _log.info(
                "libturbojpeg is missing, so OpenCV resizes the images; "
                "the Debian package libturbojpeg0 makes this faster"
            )
            return OpenCvCodec()
        raise WorkloadError(
            f"the planes codec needs libturbojpeg: {error}; "
            "install the package libturbojpeg0, or choose the opencv codec"
        ) from None

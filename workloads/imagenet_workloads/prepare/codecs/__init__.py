"""Turns the bytes of any image into an RGB JPEG; one way of doing it a file.

`opencv` works on pixels by simplejpeg and OpenCV, and is always there. `planes` works on a JPEG's
own planes of brightness and colour by the system's libturbojpeg, which is faster, and falls back
on `opencv` for what it does not know. Their bytes differ, so a dataset's key records which wrote.
"""

import logging

from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.codecs.codec import Codec
from imagenet_workloads.prepare.codecs.opencv import OpenCvCodec
from imagenet_workloads.prepare.codecs.planes import PlanesCodec
from imagenet_workloads.prepare.codecs.turbojpeg import LibraryMissingError

_log = logging.getLogger(__name__)


def choose(name: str) -> Codec:
    """The codec that an option names: `opencv`, `planes`, or `auto` for the faster one at hand.

    Raises:
        WorkloadError: it needs libturbojpeg, which is not installed.
        InputError: there is no such codec.
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

"""Codecs, which convert images to RGB JPEGs: one module each.

`opencv` works on pixels by simplejpeg and OpenCV, and is always available. `planes` works on a
JPEG's luma and chroma planes by the system's libturbojpeg, and uses `opencv` for other images.
Their bytes differ, so a dataset's key includes the codec.

Both decode and encode alike. For each pixel that it makes, `planes` saves the conversion of colours
and half of the resize. It loses time if the colours of an image are stored at full resolution
(4:4:4) and shrink to less than half: it averages them, pixel by pixel. So the faster one is chosen
by the headers of some images and the size alone, and a source has one key in all runs.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from imagenet_spec.names import CODECS
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.codecs.codec import Codec, Jpeg, target_size
from imagenet_workloads.prepare.codecs.opencv import OpenCvCodec
from imagenet_workloads.prepare.codecs.planes import (
    LibraryMissingError,
    PlanesCodec,
    averaged_pixels,
    converts,
    load,
)
from imagenet_workloads.prepare.stores.blob import DamagedImageError

OPENCV, PLANES = NAMES = CODECS


def choose(name: str) -> Codec:
    """The codec of a name.

    Raises:
        WorkloadError: it needs libturbojpeg, which is not installed.
        InputError: there is no such codec.
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


# CPU time in ns, fitted to both codecs on 200 files of ILSVRC2012 at eleven sizes, 96 to 600
# (`python -m benchmarks.preparation.codecs` compares the codecs with the choice).
SAVED_BY_PIXEL = 1.8
AVERAGING_BY_PIXEL = 2.6


class Choice(NamedTuple):
    """The name of a codec, and the name with the reason; that is empty if nothing is to be said."""

    codec: str
    said: str


def choose_faster(headers: Sequence[Jpeg | None], resize: int, *, has_planes: bool) -> Choice:
    """Chooses the faster codec for images of a source, by the headers of a sample, at least one.

    A header is None for an image that is no JPEG, or damaged. `resize` is the length of the shorter
    edge in pixels.
    """
    jpegs = [image for image in headers if image is not None and converts(image)]
    images = f"{len(headers)} sampled image{'s' if len(headers) > 1 else ''}"
    if not jpegs:
        return Choice(OPENCV, f"opencv: planes would convert none of {images}")
    counts = Counter(":".join(image.subsampling) for image in jpegs).most_common()
    rows = [*counts, *([("others", others)] if (others := len(headers) - len(jpegs)) else [])]
    width = round(median(image.width for image in jpegs))
    height = round(median(image.height for image in jpegs))
    described = ", ".join(f"{count} {name}" for name, count in rows)
    sample = f"for {images} ({described}; median {width}x{height}), resized to {resize}"
    if sum(saved_by_planes(image, resize) for image in jpegs) <= 0:
        return Choice(OPENCV, f"opencv, the faster codec {sample}")
    if has_planes:
        return Choice(PLANES, f"planes, the faster codec {sample}")
    return Choice(
        OPENCV,
        "opencv, because libturbojpeg is missing; with the Debian package libturbojpeg0, planes "
        f"would be faster {sample}",
    )


def saved_by_planes(image: Jpeg, resize: int) -> float:
    """The CPU time in ns that `planes` saves for an image that it converts."""
    try:
        target = target_size(image.height, image.width, resize)
    except DamagedImageError:
        return 0.0
    made = target[0] * target[1]
    return SAVED_BY_PIXEL * made - AVERAGING_BY_PIXEL * averaged_pixels(image, target)

"""Which codec converts the images of a source faster, by the headers of some of them.

Both codecs decode and encode alike. For each pixel that it makes, `planes` saves the conversion of
colours and half of the resize. It loses time if the colours of an image are stored at full
resolution (4:4:4) and shrink to less than half: it averages them, pixel by pixel.

The choice depends on the images and the size alone, so that a source has one key in all runs.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from imagenet_workloads.prepare.codecs import OPENCV, PLANES
from imagenet_workloads.prepare.codecs.codec import Jpeg, target_size
from imagenet_workloads.prepare.codecs.planes import averaged_pixels, converts
from imagenet_workloads.prepare.damaged_image import DamagedImageError

# CPU time in ns, fitted to both codecs on 200 files of ILSVRC2012 at eleven sizes, 96 to 600
# (`python -m benchmarks.preparation.codecs` compares the codecs with the choice).
SAVED_BY_PIXEL = 1.8
AVERAGING_BY_PIXEL = 2.6


class Choice(NamedTuple):
    """A codec, and why it was chosen.

    Attributes:
        codec: Its name.
        said: Its name and the reason; empty if nothing is to be said.
    """

    codec: str
    said: str


def choose_faster(headers: Sequence[Jpeg | None], resize: int, *, has_planes: bool) -> Choice:
    """Choose the faster codec for the images of a source.

    Args:
        headers: Those of a sample of the images, at least one; None for an image that is no JPEG,
            or damaged.
        resize: The length of the shorter edge in pixels.
        has_planes: Whether the library of `planes` is installed.
    """
    jpegs = [image for image in headers if image is not None and converts(image)]
    images = f"{len(headers)} sampled image{'s' if len(headers) > 1 else ''}"
    if not jpegs:
        return Choice(OPENCV, f"opencv: planes would convert none of {images}")
    counts = Counter(":".join(image.subsampling) for image in jpegs).most_common()
    rows = [*counts, *([("others", others)] if (others := len(headers) - len(jpegs)) else [])]
    width, height = (round(median(edges)) for edges in zip(*map(_size, jpegs), strict=True))
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
    """Return the CPU time in ns that `planes` saves for an image that it converts."""
    try:
        target = target_size(image.height, image.width, resize)
    except DamagedImageError:
        return 0.0
    made = target[0] * target[1]
    return SAVED_BY_PIXEL * made - AVERAGING_BY_PIXEL * averaged_pixels(image, target)


def _size(image: Jpeg) -> tuple[int, int]:
    return image.width, image.height

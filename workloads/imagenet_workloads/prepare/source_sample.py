"""A sample of the images of a split, by which index chooses the codec and estimates the space.

The images of a split are shuffled by the seed, so the first ones are a random choice that is the
same in each run. A server is asked for each of them once.
"""

from collections.abc import Iterator

import numpy as np

from imagenet_workloads.prepare.codecs.codec import Codec, Recipe
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.scan import Scan
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.split import Numbers
from imagenet_workloads.prepare.transcode import LARGEST_FILE, read_image, transcode
from imagenet_workloads.records.format import Format

SIZE = 32
# Larger images than these together are read again, rather than kept in memory.
_MOST_KEPT = 64 << 20
# The relative error of an estimate.
_MARGIN = 1.1


class SourceSample:
    """The first images of a split.

    Attributes:
        images: The number of images of the split.
    """

    def __init__(self, source: Source, scan: Scan, numbers: Numbers) -> None:
        """Read nothing yet.

        Args:
            source: The source of the images.
            scan: The scan of the source.
            numbers: The split's images in the scan, at least one, shuffled.
        """
        self._source = source
        self._scan = scan
        self._numbers = numbers[:SIZE]
        self._kept: dict[int, bytes] = {}
        self.images = len(numbers)

    def read(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield the size of each image in bytes, and its content; None if it cannot be read.

        Raises:
            InputError: The source has changed since it was listed.
        """
        for number in map(int, self._numbers):
            offset, size, name = self._scan.row(number)
            content = self._kept.get(number)
            if content is None:
                try:
                    content = read_image(self._source, name, offset, size)
                except (DamagedImageError, PermissionError):
                    yield size if size <= LARGEST_FILE else 0, None
                    continue
                if sum(map(len, self._kept.values())) + len(content) <= _MOST_KEPT:
                    self._kept[number] = content
            yield size, content


def estimate_bytes(sample: SourceSample, recipe: Recipe, codec: Codec, format: Format) -> int:
    """Return the approximate bytes of the shards of a split, by transcoding a sample of its images.

    Formulas by pixels and quality are wrong by a factor of two for some collections. A sample is
    more exact, and it shows early if a codec does not work or all images are damaged.

    Args:
        sample: Some images of the split.
        recipe: How they are converted.
        codec: The codec.
        format: of the shards.
    """
    made = []
    for size, image in sample.read():
        try:
            made.append(size if image is None else len(transcode(image, recipe, codec).jpeg))
        except DamagedImageError:
            made.append(size)
    return int(_MARGIN * sample.images * (np.mean(made) + format.overhead))

"""Estimates the size of a dataset, by transcoding a sample of its images.

Formulas by pixels and quality are wrong by a factor of two for some collections. A sample is more
exact, and it shows early if a codec does not work or all images are damaged.
"""

import numpy as np

from imagenet_workloads.prepare.codecs.codec import Codec, Recipe
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.formats.format import Format
from imagenet_workloads.prepare.scan import Scan
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.split import Numbers
from imagenet_workloads.prepare.transcode import LARGEST_FILE, read_image, transcode

SAMPLE = 32
# The relative error of the sample.
_MARGIN = 1.1


def bytes_of(
    source: Source, scan: Scan, numbers: Numbers, recipe: Recipe, codec: Codec, format: Format
) -> int:
    """Return the approximate bytes of the shards of a split.

    Args:
        source: The source of the images.
        scan: The scan of the source.
        numbers: The split's images in the scan, at least one, shuffled.
        recipe: How they are converted.
        codec: The codec.
        format: of the shards.
    """
    made = []
    for number in numbers[:SAMPLE]:
        row = scan.row(int(number))
        try:
            image = read_image(source, row.name, row.offset, row.size)
            made.append(len(transcode(image, recipe, codec).jpeg))
        except (DamagedImageError, PermissionError):
            made.append(row.size if row.size <= LARGEST_FILE else 0)
    return int(_MARGIN * len(numbers) * (np.mean(made) + format.overhead))

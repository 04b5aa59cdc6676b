"""Estimates how large a dataset will be, by really making a few of its images.

Formulas by pixels and quality are off by a factor of two from one collection to another; a sample
is not, and it shows at once when a codec does not work or all images are damaged.
"""

import numpy as np

from imagenet_workloads.prepare.codecs.codec import Codec, DamagedImageError, Recipe
from imagenet_workloads.prepare.formats.format import Format
from imagenet_workloads.prepare.scan import Scan
from imagenet_workloads.prepare.sources.source import Source
from imagenet_workloads.prepare.split import Numbers
from imagenet_workloads.prepare.transcode import LARGEST_FILE, read_image, transcode

SAMPLE = 32
# What the sample may be off by.
_MARGIN = 1.1


def bytes_of(
    source: Source, scan: Scan, numbers: Numbers, recipe: Recipe, codec: Codec, format: Format
) -> int:
    """The bytes that the shards of a split will take, about.

    Args:
        source: of the images.
        scan: of the source.
        numbers: of the split's images in the scan, at least one, shuffled.
        recipe: what is made of them.
        codec: by what.
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

"""Estimates the size of a dataset, by transcoding a sample of its images.

Formulas by pixels and quality are wrong by a factor of two for some collections. A sample is more
exact, and it shows early if a codec does not work or all images are damaged.
"""

import numpy as np

from imagenet_workloads.prepare.codecs.codec import Codec, Recipe
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.source_sample import SourceSample
from imagenet_workloads.prepare.transcode import transcode
from imagenet_workloads.records.format import Format

# The relative error of the sample.
_MARGIN = 1.1


def bytes_of(sample: SourceSample, recipe: Recipe, codec: Codec, format: Format) -> int:
    """Return the approximate bytes of the shards of a split.

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

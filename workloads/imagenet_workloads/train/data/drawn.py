"""The images that `--benchmark 1` makes up: by number, so that ranks and frameworks agree on them.

`made_up` gives them to MXNet. A rank draws its part of the global batch and nothing else: trained
on by any number of workers, in whatever framework, a step sees the same images. Without MXNet.
"""

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def draw(
    seed: int, first: int, count: int, shape: tuple[int, int, int], classes: int
) -> tuple[Images, Labels]:
    """Draw images and their labels.

    Args:
        seed: of the training.
        first: number of the first image in the global batch.
        count: how many.
        shape: of an image: channels, height, width.
        classes: labels are below.

    Returns:
        Images of (count, *shape), evenly from -1 to 1, and a label for each.
    """
    images = np.empty((count, *shape), np.float32)
    labels = np.empty(count, np.int64)
    for place in range(count):
        random = np.random.default_rng((seed, first + place))
        labels[place] = random.integers(0, classes)
        images[place] = random.random(shape, np.float32) * 2 - 1
    return images, labels

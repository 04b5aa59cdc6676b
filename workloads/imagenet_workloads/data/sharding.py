"""Which images each rank has: shares of records, and synthetic images by their number. Pure.

Shares are those of MXNet's ImageRecordIter (dmlc-core's IndexedRecordIOSplitter): every rank gets
ceil(images / ranks), the last ones the rest, which may be nothing.
"""

import hashlib

import numpy as np
import numpy.typing as npt

# Batches of made-up images in an epoch, as in MXNet's example, unless --num-examples is less.
MOST_BATCHES = 500


def share(images: int, rank: int, ranks: int) -> int:
    """Count the images of one rank.

    >>> [share(50, rank, 3) for rank in range(3)]
    [17, 17, 16]
    """
    step = -(-images // ranks)
    return min(step * (rank + 1), images) - min(step * rank, images)


def batches_per_epoch(
    images: int, ranks: int, batch_size_per_process: int, accumulation_steps: int
) -> int:
    """Return the steps of an epoch, the same for every rank: ranks wait for each other's steps.

    Enough for the largest share; ranks with less begin theirs again. A whole number of macrobatches
    of `accumulation_steps` batches.
    """
    batches = -(-share(images, 0, ranks) // batch_size_per_process)
    return -(-batches // accumulation_steps) * accumulation_steps


def seed_of(seed: int, epoch: int, lap: int) -> int:
    """Mix into one of 2^31 seeds; neighbours give unrelated ones."""
    digest = hashlib.sha256(f"{seed} {epoch} {lap}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


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

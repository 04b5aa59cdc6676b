"""How many images and steps each rank has. Pure.

Shares are those of MXNet's ImageRecordIter (dmlc-core's IndexedRecordIOSplitter): every rank gets
ceil(images / ranks), the last ones the rest, which may be nothing.
"""

import hashlib


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

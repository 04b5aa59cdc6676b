"""How many images and batches each rank gets, and seeds; pure arithmetic.

The shares are those of MXNet's ImageRecordIter (dmlc-core's IndexedRecordIOSplitter): every rank
gets ceil(images / ranks), the last ones what is left, which may be nothing.
"""

import hashlib

# Batches of made-up images in an epoch, as in MXNet's example, unless --num-examples is less.
MOST_BATCHES = 500


def share(images: int, rank: int, ranks: int) -> int:
    """Count the images of one rank.

    >>> [share(50, rank, 3) for rank in range(3)]
    [17, 17, 16]
    """
    step = -(-images // ranks)
    return min(step * (rank + 1), images) - min(step * rank, images)


def batches_per_epoch(images: int, ranks: int, batch_size: int, together: int) -> int:
    """Count the steps of an epoch, the same for every rank, so that nobody waits for nobody.

    Enough for the largest share; ranks with less begin theirs again. A whole number of macrobatches
    of `together` batches.
    """
    batches = -(-share(images, 0, ranks) // batch_size)
    return -(-batches // together) * together


def seed_of(seed: int, epoch: int, lap: int) -> int:
    """Mix into one of 2^31 seeds; neighbours give unrelated ones."""
    digest = hashlib.sha256(f"{seed} {epoch} {lap}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1

"""Finds similar hashes among millions of them, without comparing each with each.

Hashes that differ in at most 4 bits are equal in at least two of six bands of bits. So for each
two bands, hashes that are equal there are sorted into one bucket, and compared in it. With random
hashes a bucket of a million has less than one neighbour.
"""

from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

MOST_BITS = 4
"""Similar hashes differ in at most so many bits.

Of the 60,000 images of CIFAR-10, 261 have such a partner: nearly always the same picture.
"""

_BANDS = MOST_BITS + 2
# Each hash is compared with so many in its bucket, and so many pairs are kept: very many images
# that look alike would take hours, and are known by then.
_MOST_IN_BUCKET = 256
_MOST_PAIRS = 2_000_000


class SimilarPairs(NamedTuple):
    """Pairs of hashes by their positions, each array (pairs,)."""

    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    distance: npt.NDArray[np.int64]  # (pairs,), the bits that differ
    is_whole: bool  # whether all similar pairs are here


def similar_pairs(hashes: Hashes) -> SimilarPairs:
    """Find the pairs of hashes that differ in at most MOST_BITS bits."""
    count = len(hashes)
    # A pair as one number: many are found by several buckets.
    found, distances, is_whole = np.empty(0, np.int64), np.empty(0, np.int64), True
    edges = np.linspace(0, 64, _BANDS + 1).astype(int).tolist()
    bands = [np.uint64((1 << end) - (1 << start)) for start, end in pairwise(edges)]
    waiting: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []

    def merge() -> None:
        nonlocal found, distances
        found, kept = np.unique(
            np.concatenate([found, *(pair for pair, _ in waiting)]), return_index=True
        )
        distances = np.concatenate([distances, *(distance for _, distance in waiting)])[kept]
        waiting.clear()

    for one, other in combinations(bands, 2):
        bucket = hashes & (one | other)
        order = np.argsort(bucket)
        bucket, of_bucket = bucket[order], hashes[order]
        left = np.arange(count)
        for step in range(1, _MOST_IN_BUCKET + 1):
            left = left[left + step < count]
            left = left[bucket[left] == bucket[left + step]]
            if not len(left):
                break
            distance = _bits(of_bucket[left] ^ of_bucket[left + step])
            near = left[distance <= MOST_BITS]
            if len(near):
                ends = np.sort(np.stack((order[near], order[near + step])), axis=0)
                pair = ends[0] * count + ends[1]
                waiting.append((pair, distance[distance <= MOST_BITS]))
            # Each merge sorts all pairs again.
            if sum(len(pair) for pair, _ in waiting) > _MOST_PAIRS:
                merge()
                if len(found) > _MOST_PAIRS:
                    first, second = np.divmod(found[:_MOST_PAIRS], count)
                    return SimilarPairs(first, second, distances[:_MOST_PAIRS], is_whole=False)
        else:
            is_whole = False
        merge()
    first, second = np.divmod(found, max(1, count))
    return SimilarPairs(first, second, distances, is_whole)


def _bits(values: Hashes) -> npt.NDArray[np.int64]:
    """Count the bits of each value that are set; NumPy has a function for it from 2.0 on."""
    values = values - ((values >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    values = (values & pairs) + ((values >> np.uint64(2)) & pairs)
    values = (values + (values >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return ((values * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.int64)

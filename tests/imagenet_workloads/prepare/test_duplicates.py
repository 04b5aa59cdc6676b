"""Similar hashes are found as a comparison of each with each finds them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_workloads.prepare import duplicates
from imagenet_workloads.prepare.duplicates import MOST_BITS, similar_pairs

Found = set[tuple[int, int, int]]


def pairs_of(hashes: np.ndarray) -> Found:
    found = similar_pairs(hashes)
    assert found.is_whole
    return set(zip(*(column.tolist() for column in found[:3]), strict=True))


def each_with_each(hashes: list[int]) -> Found:
    return {
        (one, other, distance)
        for other in range(len(hashes))
        for one in range(other)
        if (distance := (hashes[one] ^ hashes[other]).bit_count()) <= MOST_BITS
    }


words = st.integers(0, 2**64 - 1)


@settings(deadline=None, max_examples=200)
@given(
    hashes=st.lists(words, max_size=12),
    flips=st.lists(st.tuples(st.integers(0, 11), st.sets(st.integers(0, 63), max_size=6))),
)
def test_every_pair_is_found_with_its_distance(
    hashes: list[int], flips: list[tuple[int, set[int]]]
) -> None:
    near = [hashes[at] ^ sum(1 << bit for bit in bits) for at, bits in flips if at < len(hashes)]
    unique = sorted({*hashes, *near})
    assert pairs_of(np.array(unique, np.uint64)) == each_with_each(unique)


def test_planted_pairs_of_every_distance_are_found_among_many() -> None:
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**64, 20_000, dtype=np.uint64).tolist()
    for number in range(500):
        bits = rng.choice(64, number % (MOST_BITS + 1) or 1, replace=False).tolist()
        hashes.append(hashes[number] ^ sum(1 << bit for bit in bits))
    found = pairs_of(np.array(hashes, np.uint64))
    assert {(one, other) for one, other, _ in found} >= {(n, 20_000 + n) for n in range(500)}


def test_all_of_a_million_hashes_are_compared() -> None:
    hashes = np.random.default_rng(1).integers(0, 2**64, 1_000_000, dtype=np.uint64)
    hashes[-1] = hashes[0] ^ np.uint64(0b1011)
    found = similar_pairs(hashes)
    assert found.is_whole
    assert (0, 999_999, 3) in list(zip(*(column.tolist() for column in found[:3]), strict=True))


@pytest.mark.parametrize("limit", ["_MOST_IN_BUCKET", "_MOST_PAIRS"])
def test_very_many_similar_hashes_are_given_up_and_it_says_so(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, limit, 50)
    found = similar_pairs(np.arange(5000, dtype=np.uint64))
    assert not found.is_whole
    assert len(found.first) >= 50

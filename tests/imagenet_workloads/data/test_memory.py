"""Places in shared memory: no two have a byte in common, and what is not owned can be taken."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.data.memory import Arena

SIZE = 1 << 16


class Owner:
    """Of a place, for as long as something refers to it."""


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(1, SIZE // 4)),
            st.tuples(st.just("forget"), st.integers(0, 50)),
        ),
        max_size=60,
    )
)
def test_places_of_living_owners_are_disjoint(steps: list[tuple[str, int]]) -> None:
    arena, owned = Arena(SIZE), list[tuple[int, int, Owner]]()
    for what, number in steps:
        if what == "take":
            owner = Owner()
            try:
                begin = arena.take(number, owner)
            except MemoryError:
                # There is no gap of this length.
                edges = sorted((begin, begin + length) for begin, length, _ in owned)
                ends = [0, *(end for _, end in edges)]
                begins = [*(begin for begin, _ in edges), SIZE]
                assert all(b - a < number for a, b in zip(ends, begins, strict=True))
                continue
            owned.append((begin, number, owner))
            del owner
        elif owned:
            owned.pop(number % len(owned))
        places = sorted((begin, begin + length) for begin, length, _ in owned)
        assert all(0 <= begin < end <= SIZE for begin, end in places)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(places))
    owned.clear()
    assert arena.take(SIZE, arena) == 0


def test_what_is_longer_than_the_memory_is_refused() -> None:
    arena = Arena(SIZE)
    with pytest.raises(MemoryError, match=f"no {SIZE + 1} bytes are left"):
        arena.take(SIZE + 1, arena)

"""The made-up images: the same ones however they are shared out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.data.synthetic_data import draw

SHAPE = (3, 5, 4)


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 5))
def test_the_ranks_parts_are_the_global_batch(seed: int, ranks: int, batch: int) -> None:
    images, labels = draw(seed, 0, ranks * batch, SHAPE, 10)
    parts = [draw(seed, rank * batch, batch, SHAPE, 10) for rank in range(ranks)]
    np.testing.assert_array_equal(np.concatenate([part for part, _ in parts]), images)
    np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), labels)


def test_images_differ_and_stay_in_range() -> None:
    images, labels = draw(1, 0, 200, SHAPE, 7)
    assert images.dtype == np.float32
    assert len(np.unique(images)) > 0.99 * images.size
    assert -1 <= images.min() < -0.99
    assert 0.99 < images.max() < 1
    assert set(labels) == set(range(7))


def test_another_seed_draws_others() -> None:
    assert not np.array_equal(draw(1, 0, 2, SHAPE, 9)[0], draw(2, 0, 2, SHAPE, 9)[0])

"""Sums of colours against numpy's own mean and deviation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.channel_statistics import ChannelStatistics


@given(
    images=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
def test_equals_numpy_over_all_points(images: list[tuple[int, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    made = [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in images]
    total = ChannelStatistics.of(made)
    points = np.concatenate([image.reshape(-1, 3) for image in made])
    assert total.points == len(points)
    assert np.allclose(total.mean(), points.mean(axis=0))
    assert np.allclose(total.std(), points.std(axis=0))
    # However the images are divided among threads and shards.
    assert (
        sum((ChannelStatistics.of([image]) for image in reversed(made)), ChannelStatistics())
        == total
    )


def test_is_exact_for_a_whole_imagenet() -> None:
    one = ChannelStatistics.of([np.full((640, 480, 3), 255, np.uint8)[::3, ::3]])
    many = ChannelStatistics(
        one.points * 10**7,
        (one.sums[0] * 10**7,) * 3,
        (one.squares[0] * 10**7,) * 3,
    )
    assert (many.mean(), many.std()) == ((255.0,) * 3, (0.0,) * 3)


def test_takes_a_grid_that_is_no_contiguous_array() -> None:
    image = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    assert ChannelStatistics.of([image[::3, ::3]]) == ChannelStatistics.of([image[::3, ::3].copy()])


def test_no_points_have_no_colour() -> None:
    assert ChannelStatistics.of([]) == ChannelStatistics()
    assert (ChannelStatistics().mean(), ChannelStatistics().std()) == ((0.0,) * 3, (0.0,) * 3)


def test_comes_back_from_json() -> None:
    statistics = ChannelStatistics.of([np.arange(12, dtype=np.uint8).reshape(2, 2, 3)])
    assert ChannelStatistics.from_fields(Fields(statistics.to_document(), "x")) == statistics
    with pytest.raises(InputError, match="sums must be three whole numbers"):
        ChannelStatistics.from_fields(Fields({"points": 1, "sums": [1], "squares": [1, 2, 3]}, "x"))

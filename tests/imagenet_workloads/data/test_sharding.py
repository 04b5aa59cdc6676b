"""Shares of ranks: nothing lost, nothing twice, the same number of steps for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.data.sharding import batches_per_epoch, share

IMAGES, RANKS = st.integers(0, 10_000), st.integers(1, 64)


@given(images=IMAGES, ranks=RANKS)
def test_shares_are_the_whole(images: int, ranks: int) -> None:
    shares = [share(images, rank, ranks) for rank in range(ranks)]
    assert sum(shares) == images
    assert shares == sorted(shares, reverse=True)
    assert min(shares) >= 0


@given(images=IMAGES, ranks=RANKS, batch=st.integers(1, 512), accumulation_steps=st.integers(1, 5))
def test_an_epoch_sees_every_image(
    images: int, ranks: int, batch: int, accumulation_steps: int
) -> None:
    batches = batches_per_epoch(images, ranks, batch, accumulation_steps)
    assert batches % accumulation_steps == 0
    assert batches * batch >= share(images, 0, ranks)
    assert (batches - accumulation_steps) * batch < share(images, 0, ranks) or batches == 0


@pytest.mark.parametrize(
    ("images", "ranks", "batch", "batches"),
    [(50, 3, 8, 3), (1281167, 16, 512, 157), (1, 1, 128, 1)],
)
def test_known_epochs(images: int, ranks: int, batch: int, batches: int) -> None:
    assert batches_per_epoch(images, ranks, batch, 1) == batches

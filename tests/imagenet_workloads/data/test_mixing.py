"""Mixup's and CutMix's numbers, by hand and by distributions whose quantiles are known."""

import math

import numpy as np
import pytest

from imagenet_spec.program.train import AugmentationOptions
from imagenet_workloads.data.jpeg import Size
from imagenet_workloads.data.mixing import beta_quantile, draw_mixing

SIZE = Size(8, 4)


@pytest.mark.parametrize(
    ("alpha", "draw", "expected"),
    [
        (1.0, 0.3, 0.3),
        # Beta(1/2, 1/2) is the arcsine distribution.
        (0.5, 0.25, math.sin(math.pi / 8) ** 2),
        (0.5, 0.9, math.sin(math.pi * 0.45) ** 2),
        # Beta(2, 2) has the distribution function 3 x^2 - 2 x^3, which is 0.15625 at 0.25.
        (2.0, 0.15625, 0.25),
        (2.0, 1 - 0.15625, 0.75),
        (0.2, 0.0, 0.0),
    ],
)
def test_a_beta_distribution_has_its_known_quantiles(
    alpha: float, draw: float, expected: float
) -> None:
    assert beta_quantile(np.array([draw]), alpha)[0] == pytest.approx(expected, abs=1e-6)


def test_its_variance_is_that_of_the_formula() -> None:
    found = beta_quantile((np.arange(100_000) + 0.5) / 100_000, 0.2)
    assert found.mean() == pytest.approx(0.5)
    assert found.var() == pytest.approx(1 / (4 * (2 * 0.2 + 1)), rel=1e-4)


def test_mixup_draws_a_share_and_no_box() -> None:
    found = draw_mixing(np.array([[0.3, 0.1, 0.2, 0.4]]), SIZE, AugmentationOptions(mixup=1.0))
    assert found is not None
    assert found.shares.tolist() == pytest.approx([0.3])
    assert not found.boxes.any()


def test_cutmix_cuts_a_box_whose_area_is_the_neighbours_share() -> None:
    # The share 0.75 gives sides of a half: 4 rows about row 4, 2 columns about column 0.
    draws = np.array([[0.75, 0.0, 0.5, 0.0]])
    found = draw_mixing(draws, SIZE, AugmentationOptions(cutmix=1.0))
    assert found is not None
    assert found.boxes.tolist() == [[2, 0, 6, 1]]
    assert found.shares.tolist() == [1 - 4 / 32]


def test_with_both_each_image_gets_one() -> None:
    draws = np.array([[0.75, 0.4, 0.5, 0.5], [0.75, 0.6, 0.5, 0.5]])
    found = draw_mixing(draws, SIZE, AugmentationOptions(mixup=1.0, cutmix=1.0))
    assert found is not None
    assert found.boxes.tolist() == [[2, 1, 6, 3], [0, 0, 0, 0]]
    assert found.shares.tolist() == pytest.approx([0.75, 0.75])


def test_without_either_nothing_is_mixed() -> None:
    assert draw_mixing(np.zeros((2, 4)), SIZE, AugmentationOptions()) is None

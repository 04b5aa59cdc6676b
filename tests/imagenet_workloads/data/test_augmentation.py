"""Images are cropped, mirrored and coloured as their random numbers say."""

import math

import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from imagenet_spec.program.train import AugmentationOptions
from imagenet_workloads.data.augmentation import (
    DRAWS,
    OPERATION_DRAWS,
    OPERATIONS,
    Recipe,
    beta_quantile,
    draw_mixing,
    rand_augment,
    training_pixels,
    validation_pixels,
)
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.jpeg import Pixels, Size
from imagenet_workloads.prediction import prepare
from support.pictures import difference, jpeg, pixels, png

HALVES = [0.5] * DRAWS
FIRST = [0.0] * DRAWS
NONE = AugmentationOptions()


def decoded(encoded: bytes) -> Pixels:
    found: Pixels = simplejpeg.decode_jpeg(encoded)
    return found


def test_without_augmentation_the_centre_is_cropped() -> None:
    image = jpeg(1, 40, 50)
    found = training_pixels(image, HALVES, Recipe((3, 20, 30), NONE))
    assert (found == decoded(image)[10:30, 10:40]).all()


def test_a_random_crop_may_lie_anywhere() -> None:
    image, recipe = jpeg(1, 40, 50), Recipe((3, 20, 30), AugmentationOptions(random_crop=True))
    assert (training_pixels(image, FIRST, recipe) == decoded(image)[:20, :30]).all()
    last = [1 - 1e-9] * DRAWS
    assert (training_pixels(image, last, recipe) == decoded(image)[20:, 20:]).all()


def test_half_of_the_images_are_mirrored() -> None:
    image, recipe = jpeg(2, 20, 30), Recipe((3, 20, 30), AugmentationOptions(random_mirror=True))
    assert (training_pixels(image, FIRST, recipe) == decoded(image)[:, ::-1]).all()
    assert (training_pixels(image, HALVES, recipe) == decoded(image)).all()


def test_an_image_of_half_the_scale() -> None:
    image = jpeg(3, 480, 640)
    scaled = AugmentationOptions(random_crop=True, min_random_scale=0.5, max_random_scale=0.5)
    found = training_pixels(image, FIRST, Recipe((3, 224, 224), scaled))
    half = cv2.resize(decoded(image)[:448, :448], (224, 224), interpolation=cv2.INTER_AREA)
    assert difference(found, np.asarray(half, np.uint8)) < 1


def test_padding_surrounds_the_image() -> None:
    image = jpeg(4, 28, 28)
    recipe = Recipe((3, 28, 28), AugmentationOptions(random_crop=True), pad=4, fill=9)
    found = training_pixels(image, FIRST, recipe)
    assert (found[:4] == 9).all() and (found[:, :4] == 9).all()
    assert (found[4:, 4:] == decoded(image)[:24, :24]).all()


@settings(deadline=None, max_examples=60)
@given(
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    channels=st.sampled_from((1, 3)),
    draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=DRAWS, max_size=DRAWS),
    options=st.builds(
        AugmentationOptions,
        random_crop=st.booleans(),
        random_resized_crop=st.booleans(),
        random_mirror=st.booleans(),
        min_random_area=st.floats(0.01, 1),
        max_random_aspect_ratio=st.floats(0, 0.9),
        min_random_scale=st.floats(0.1, 3),
        max_random_scale=st.floats(0.1, 3),
        brightness=st.floats(0, 1),
        contrast=st.floats(0, 1),
        saturation=st.floats(0, 1),
        pca_noise=st.floats(0, 1),
    ),
)
def test_any_image_becomes_what_the_network_takes(
    height: int, width: int, channels: int, draws: list[float], options: AugmentationOptions
) -> None:
    image = jpeg(5, height, width)
    for recipe in (Recipe((channels, 17, 23), options), Recipe((channels, 17, 23), options, pad=2)):
        found = training_pixels(image, draws, recipe)
        assert found.shape == (17, 23, channels)
        assert found.dtype == np.uint8


def test_resized_crops_have_areas_and_shapes_of_the_range() -> None:
    # Each pixel shows where it is.
    rows, columns = np.mgrid[0:120, 0:200]
    image = png(np.stack((rows, columns, 0 * rows), axis=2).astype(np.uint8))
    options = AugmentationOptions(
        random_resized_crop=True,
        min_random_area=0.25,
        max_random_area=0.5,
        min_random_aspect_ratio=0.8,
        max_random_aspect_ratio=1.25,
    )
    random = np.random.default_rng(0)
    areas, shapes = [], []
    for _ in range(300):
        found = training_pixels(image, random.random(DRAWS).tolist(), Recipe((3, 40, 40), options))
        height, width = (int(np.ptp(found[:, :, axis])) + 1 for axis in (0, 1))
        areas.append(height * width / (120 * 200))
        shapes.append(width / height)
    assert 0.22 < min(areas) < 0.3 and 0.45 < max(areas) < 0.53
    assert 0.75 < min(shapes) < 0.85 and 1.2 < max(shapes) < 1.35


def test_colours_change_as_one_linear_map() -> None:
    image = png(pixels(6, 16, 16))
    before = pixels(6, 16, 16).astype(np.float64)
    grey = np.array((0.299, 0.587, 0.114))

    def changed(**options: float) -> Pixels:
        # Every draw is 0.75, so a strength of 0.4 is a factor of 1.2.
        draws = [*[0.75] * 11, *[0.1] * (DRAWS - 11)]
        augmentation = AugmentationOptions(**options)  # type: ignore[arg-type]
        return training_pixels(image, draws, Recipe((3, 16, 16), augmentation))

    def close(found: Pixels, expected: object) -> bool:
        return bool(np.abs(found - np.clip(np.asarray(expected), 0, 255)).max() <= 1)

    assert close(changed(brightness=0.4), before * 1.2)
    assert close(changed(contrast=0.4), before * 1.2 - 0.2 * (before @ grey).mean())
    assert close(changed(saturation=0.4), before * 1.2 - 0.2 * (before @ grey)[:, :, None])
    shifted = changed(pca_noise=0.1) - before
    inside = (before > 40) & (before < 215)
    assert [np.ptp(shifted[:, :, axis][inside[:, :, axis]]) <= 1 for axis in range(3)] == [True] * 3
    assert [np.abs(shifted[:, :, axis]).max() > 1 for axis in range(3)] == [True] * 3


@pytest.mark.parametrize("channels", [1, 3])
def test_validation_images_are_prepared_as_for_prediction(channels: int) -> None:
    image = png(pixels(7, 60, 91))
    inputs = Inputs((channels, 28, 28), (0, 0, 0), (1, 1, 1), 32)
    expected = prepare(image, "image.png", inputs)[0].transpose(1, 2, 0)
    found = validation_pixels(image, Recipe((channels, 28, 28), resize=32))
    assert (found == expected).all()


def test_small_validation_images_are_enlarged() -> None:
    assert validation_pixels(jpeg(8, 10, 40), Recipe((3, 28, 28))).shape == (28, 28, 3)
    assert validation_pixels(jpeg(8, 10, 40), Recipe((3, 28, 28), resize=12)).shape == (28, 28, 3)


def test_a_file_that_is_no_image() -> None:
    with pytest.raises(ValueError, match="no decoder reads its image"):
        training_pixels(b"text", HALVES, Recipe((3, 8, 8), NONE))


def test_a_rectangle_is_erased() -> None:
    image = png(np.full((20, 30, 3), 200, np.uint8))
    recipe = Recipe((3, 20, 30), AugmentationOptions(random_erasing=0.6), fill=9)
    # The area is 0.175 of 600 pixels and the ratio 1: 10 rows and columns in the middle.
    found = training_pixels(image, HALVES, recipe)
    expected = np.full((20, 30, 3), 200, np.uint8)
    expected[5:15, 10:20] = 9
    assert np.array_equal(found, expected)
    rarely = Recipe((3, 20, 30), AugmentationOptions(random_erasing=0.4), fill=9)
    assert (training_pixels(image, HALVES, rarely) == 200).all()


def test_the_last_epochs_are_not_augmented() -> None:
    recipe = Recipe((3, 20, 30), AugmentationOptions(random_mirror=True), augmented_epochs=2)
    assert [recipe.of_epoch(epoch).augmentation == NONE for epoch in range(4)] == [
        *(False, False),
        *(True, True),
    ]
    always = Recipe((3, 20, 30), AugmentationOptions(random_mirror=True))
    assert always.of_epoch(1000) is always


def test_only_what_needs_them_draws_further_numbers() -> None:
    assert Recipe((3, 20, 30), AugmentationOptions(random_crop=True)).draws < DRAWS
    assert Recipe((3, 20, 30), AugmentationOptions(mixup=0.2)).draws == DRAWS


NAMES = list(OPERATIONS)


def image(values: object, channels: int = 1) -> Pixels:
    plane: NDArray[np.uint8] = np.array(values, np.uint8)
    return np.repeat(plane[:, :, np.newaxis], channels, axis=2)


@pytest.mark.parametrize(
    ("name", "signed", "expected"),
    [
        ("identity", 1.0, [[10, 20, 30]]),
        ("brightness", 1.0, [[19, 38, 57]]),
        ("brightness", -1.0, [[1, 2, 3]]),
        ("contrast", -1.0, [[19, 20, 21]]),
        ("colour", 1.0, [[10, 20, 30]]),
        ("posterize", 1.0, [[0, 16, 16]]),
        ("posterize", 0.0, [[10, 20, 30]]),
        ("solarize", 1.0, [[245, 235, 225]]),
        ("solarize", 0.0, [[10, 20, 30]]),
        ("auto-contrast", 1.0, [[0, 127, 255]]),
        # 150 / 331 of 3 columns is 1.36.
        ("translate-x", 1.0, [[20, 30, 7]]),
        ("translate-x", -1.0, [[7, 10, 20]]),
    ],
)
def test_an_operation_by_hand(name: str, signed: float, expected: object) -> None:
    found = np.asarray(OPERATIONS[name](image([[10, 20, 30]]), signed, 7))
    assert found.astype(np.uint8).reshape(1, 3).tolist() == expected


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_any_operation_keeps_shape_and_kind(number: int, channels: int) -> None:
    before = image(np.arange(15 * 9).reshape(15, 9), channels)
    draws = [(number + 0.5) / len(NAMES), 0.9] * (OPERATION_DRAWS // 2)
    found = rand_augment(before, draws, 2, 9, 127)
    assert found.shape == before.shape and found.dtype == np.uint8
    same = rand_augment(before, draws, 0, 9, 127)
    assert np.array_equal(same, before)


def test_operations_follow_each_other() -> None:
    brightness, solarize = (
        (NAMES.index(name) + 0.5) / len(NAMES) for name in ("brightness", "solarize")
    )
    # 100 * 1.9 is 190, and its inverse 65.
    found = rand_augment(image([[100]]), [brightness, 0.0, solarize, 0.0], 2, 30, 0)
    assert found.tolist() == [[[65]]]


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

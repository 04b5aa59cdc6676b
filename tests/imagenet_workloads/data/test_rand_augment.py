"""RandAugment's operations, by hand; tests/with_pytorch compares them with torchvision's."""

import numpy as np
import pytest
from numpy.typing import NDArray

from imagenet_workloads.data.jpeg import Pixels
from imagenet_workloads.data.rand_augment import DRAWS, OPERATIONS, rand_augment

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
    draws = [(number + 0.5) / len(NAMES), 0.9] * (DRAWS // 2)
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

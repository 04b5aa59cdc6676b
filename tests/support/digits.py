"""Single images of real handwritten digits, for datasets of any format."""

import functools
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

CLASSES = tuple(f"digit-{number}" for number in range(10))


@functools.cache
def _digits() -> Any:
    return load_digits()


def digit(number: int, edge: int = 28) -> NDArray[np.uint8]:
    """One of scikit-learn's 1,797 digits, (edge, edge, 3) in 0..255."""
    small = (_digits().images[number] * 255 / 16).astype(np.uint8)
    grey = cv2.resize(small, (edge, edge), interpolation=cv2.INTER_CUBIC)
    return np.repeat(grey[:, :, None], 3, axis=2)


def label(number: int) -> int:
    """Which digit it is."""
    return int(_digits().target[number])

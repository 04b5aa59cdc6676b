"""Checks what a framework trains under augmentation: which images change, how, and how many."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imagenet_spec.program.train import Options
from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.worker_data import Data

Image = NDArray[np.float32]
"""(height, width, channels), from 0 to 255."""

FILL = 127
# Whole numbers from 0 to 255, of two epochs.
_COMMON = (
    *("--rgb-mean", "0,0,0", "--rgb-std", "1,1,1", "--image-shape", "3,28,28"),
    *("--batch-size", "32", "--data-nthreads", "1", "--num-epochs", "2"),
    *("--fill-value", str(FILL)),
)


def _is_mirrored(before: Image, after: Image) -> bool:
    return np.array_equal(after, before[:, ::-1])


def _is_erased(before: Image, after: Image) -> bool:
    """Whether a rectangle of the size that Zhong et al. give has the fill, and nothing else."""
    rows, columns = np.nonzero((before != after).any(axis=2))
    box = (slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1))
    expected = before.copy()
    expected[box] = FILL
    part = after[box].size / after.size
    # Sides are rounded to whole pixels.
    return np.array_equal(after, expected) and 0.01 < part < 0.38


def _is_brighter_or_darker(before: Image, after: Image) -> bool:
    seen = (before > 20) & (after < 255)
    factor = float(np.median(after[seen] / before[seen]))
    expected = np.clip(before * factor, 0, 255)
    return 0.58 < factor < 1.42 and bool(np.abs(after - expected).max() <= 5)


def _is_another(before: Image, after: Image) -> bool:
    return float(np.abs(after - before).mean()) > 0.1


@dataclass(frozen=True)
class Change:
    """What options do to training images.

    Attributes:
        arguments: of `imagenet-train`.
        least: the smallest part of the images that changes.
        most: the largest.
        is_right: whether an image that has changed did so as it should, by before and after.
    """

    arguments: Sequence[str]
    least: float
    most: float
    is_right: Callable[[Image, Image], bool]


CHANGES: Mapping[str, Change] = {
    "mirrored": Change(("--random-mirror", "1"), 0.35, 0.65, _is_mirrored),
    "erased": Change(("--random-erasing", "0.5"), 0.35, 0.65, _is_erased),
    "brightness": Change(("--brightness", "0.4"), 0.9, 1, _is_brighter_or_darker),
    "RandAugment": Change(("--rand-augment-operations", "2"), 0.7, 1, _is_another),
}


def check_augmented(
    choose: Callable[[Options], Data],
    to_numpy: Callable[[Any], NDArray[Any]],
    arguments: Sequence[str],
    change: Change,
) -> None:
    """Assert that images change as they should, and labels never.

    Args:
        choose: a framework's, for one worker.
        to_numpy: converts its arrays.
        arguments: that name the framework and a dataset of images of 28 pixels.
        change: what is turned on.
    """

    def read(*more: str) -> list[list[tuple[Image, float]]]:
        data = choose(parse([*arguments, *_COMMON, *more]))
        return [_images(data, epoch, to_numpy) for epoch in (0, 1)]

    plain, varied = read(), read(*change.arguments)
    ending = read(*change.arguments, "--off-in-last-epochs", "1")
    changed = []
    for before, after in zip(plain, varied, strict=True):
        assert [label for _, label in before] == [label for _, label in after]
        pairs = [(one, other) for (one, _), (other, _) in zip(before, after, strict=True)]
        changed.append([not np.array_equal(one, other) for one, other in pairs])
        assert change.least <= np.mean(changed[-1]) <= change.most
        wrong = [
            number
            for number, (one, other) in enumerate(pairs)
            if changed[-1][number] and not change.is_right(one, other)
        ]
        assert wrong == []
    for (one, _), (other, _) in zip(ending[0], varied[0], strict=True):
        assert np.array_equal(one, other)
    for (one, _), (other, _) in zip(ending[1], plain[1], strict=True):
        assert np.array_equal(one, other)


def _images(
    data: Data, epoch: int, to_numpy: Callable[[Any], NDArray[Any]]
) -> list[tuple[Image, float]]:
    """Return an epoch's images with their labels."""
    found = []
    for batch in data.training.epoch(epoch, 0):
        images = np.array(to_numpy(batch.data), np.float32)
        if images.shape[1] == 3:
            images = images.transpose(0, 2, 3, 1)
        labels = np.array(to_numpy(batch.label))
        kept = batch.images
        found += list(zip(images[:kept], labels[:kept].tolist(), strict=True))
    return found

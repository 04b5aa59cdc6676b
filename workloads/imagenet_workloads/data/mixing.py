"""Mixup and CutMix: how much of its neighbour each image of a batch gets.

Each image is mixed with the next one of its worker's batch, the last with the first. The numbers
are drawn by the image's position. The neighbour depends on the number of workers, like the batch.
A framework mixes images and losses on its device by a `Mixing`.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from imagenet_spec.program.train import AugmentationOptions
from imagenet_workloads.data.jpeg import Size

DRAWS = 4
"""Random numbers of an image: share, kind, row and column of the box."""

_SHARE, _KIND, _ROW, _COLUMN = range(DRAWS)
_STEPS = 4096


@dataclass(frozen=True)
class Mixing:
    """The mixture of a batch.

    Attributes:
        shares: (images,), from 0 to 1: the weight of an image's own label. The neighbour's label
            has the rest.
        boxes: (images, 4), top, left, bottom and right, in pixels: the part that is the
            neighbour's. If it is empty, all pixels are mixed by the share.
    """

    shares: NDArray[np.float32]
    boxes: NDArray[np.int64]


def draw_mixing(
    draws: NDArray[np.float64], size: Size, chosen: AugmentationOptions
) -> Mixing | None:
    """Return the mixture of some images; None without mixup and CutMix.

    Mixup's share is Beta(alpha, alpha) (Zhang et al. 2017). In CutMix the box has the area 1 -
    Beta(alpha, alpha) around a random point. The share is the area outside of what the image has of
    the box (Yun et al. 2019). With both, half of the images get each.

    Args:
        draws: (images, DRAWS), from 0 to below 1.
        size: of the network's input.
        chosen: has the alphas.
    """
    if not (chosen.mixup or chosen.cutmix):
        return None
    share = beta_quantile(draws[:, _SHARE], chosen.mixup) if chosen.mixup else np.ones(len(draws))
    boxes = np.zeros((len(draws), 4), np.int64)
    if chosen.cutmix:
        cut = draws[:, _KIND] < (0.5 if chosen.mixup else 1)
        boxes[cut] = _boxes(draws[cut], size, chosen.cutmix)
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        share = np.where(cut, 1 - areas / (size.height * size.width), share)
    return Mixing(share.astype(np.float32), boxes)


def _boxes(draws: NDArray[np.float64], size: Size, alpha: float) -> NDArray[np.int64]:
    side = np.sqrt(1 - beta_quantile(draws[:, _SHARE], alpha))
    edges = []
    for at, whole in ((_ROW, size.height), (_COLUMN, size.width)):
        centre, half = np.floor(draws[:, at] * whole), np.floor(whole * side / 2)
        edges.append(np.clip(np.stack((centre - half, centre + half)), 0, whole))
    (top, bottom), (left, right) = edges
    boxes: NDArray[np.int64] = np.stack((top, left, bottom, right), axis=1).astype(np.int64)
    return boxes


def beta_quantile(draws: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Turn even numbers into numbers of the distribution Beta(alpha, alpha).

    >>> beta_quantile(np.array([0.25, 0.5, 0.75]), alpha=1.0).round(6).tolist()
    [0.25, 0.5, 0.75]
    """
    powers, shares = _beta_table(alpha)
    lower = np.minimum(draws, 1 - draws)
    found: NDArray[np.float64] = np.interp(lower, shares, powers) ** (1 / alpha)
    return np.where(draws <= 0.5, found, 1 - found)


@functools.cache
def _beta_table(alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the distribution function up to 0.5, of x ** alpha, whose density is bounded there."""
    powers = np.linspace(0, math.pow(0.5, alpha), _STEPS + 1)
    density = (1 - powers ** (1 / alpha)) ** (alpha - 1)
    sums = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return powers, sums / sums[-1] / 2

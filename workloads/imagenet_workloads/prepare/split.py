"""Splits images into training and validation, as pure functions of numbers.

Rare classes are dropped, and a label is the position of a class among the sorted names of the
others. The validation images of each class are drawn by the seed. Each split is shuffled once, so
that sequential reads of its shards are random.
"""

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imagenet_workloads.errors import InputError

Numbers = npt.NDArray[np.uint32]

DROPPED = -1


class Classes(NamedTuple):
    """The classes of the dataset.

    Attributes:
        names: The sorted names; a label is a position in it.
        dropped: The other classes, with their numbers of images.
        labels: The label of each class in the order of the listing, or DROPPED.
    """

    names: tuple[str, ...]
    dropped: dict[str, int]
    labels: npt.NDArray[np.int64]


def choose_classes(
    found: Sequence[str], counts: Sequence[int], empty: Sequence[str], fewest: int
) -> Classes:
    """Keep the classes with at least `fewest` images, and at least one.

    Args:
        found: The classes' names, in the order of the listing.
        counts: Their numbers of images.
        empty: The names of classes without images.
        fewest: The smallest number of images.

    Raises:
        InputError: No class remains.
    """
    rare = {name: count for name, count in zip(found, counts, strict=True) if count < fewest}
    rare.update(dict.fromkeys(empty, 0))
    names = tuple(sorted(set(found) - rare.keys()))
    if not names:
        most = max(counts, default=0)
        raise InputError(
            f"no class has {max(fewest, 1)} images or more: the largest of "
            f"{len(set(found) | rare.keys())} has {most}; lower --min-images-per-class "
            "(minImagesPerClass), or check the source"
        )
    label = {name: position for position, name in enumerate(names)}
    labels = np.array([label.get(name, DROPPED) for name in found], np.int64)
    return Classes(names, dict(sorted(rare.items())), labels)


def draw(
    class_of: Numbers, found: Sequence[str], classes: Classes, per_class: int, seed: int
) -> tuple[Numbers, Numbers]:
    """Divide a source's images into training and validation images, both in order.

    A class's draw depends only on its name, its number of images and the seed, not on other
    classes.

    Args:
        class_of: Each image's class, as a position in `found`.
        found: The classes' names.
        classes: The classes to keep.
        per_class: The validation images of each class.
        seed: The seed of the draws.

    Raises:
        InputError: A class would have no training image.
    """
    if per_class == 0:
        return np.flatnonzero(classes.labels[class_of] != DROPPED).astype(np.uint32), _none()
    # 0: not in the dataset, 1: training, 2: validation.
    role = (classes.labels != DROPPED).astype(np.uint8)[class_of]
    order = np.argsort(class_of, kind="stable").astype(np.uint32)
    start = 0
    for number, count in enumerate(np.bincount(class_of, minlength=len(found)).tolist()):
        if classes.labels[number] != DROPPED:
            role[order[start + _draw_class(found[number], count, per_class, seed)]] = 2
        start += count
    del order
    return (
        np.flatnonzero(role == 1).astype(np.uint32),
        np.flatnonzero(role == 2).astype(np.uint32),
    )


def _draw_class(name: str, count: int, per_class: int, seed: int) -> npt.NDArray[np.int64]:
    if count <= per_class:
        raise InputError(
            f"the class {name} has {count} images, and the validation needs {per_class} of each "
            "class; lower --validation-per-class (validation.split.imagesPerClass), or raise "
            "--min-images-per-class (minImagesPerClass)"
        )
    return _generator(seed, name).choice(count, per_class, replace=False)


def shuffle(images: Numbers, seed: int, split: str) -> Numbers:
    """Shuffle the images in place into the order of their keys."""
    _generator(seed, f"order of {split}").shuffle(images)
    return images


def shard_counts(train: int, validation: int, shards: int) -> tuple[int, int]:
    """Return the shards of each split: validation shards are about as large as training shards.

    Raises:
        InputError: A training shard would be empty.
    """
    if train < shards:
        raise InputError(
            f"{train} training images do not fill {shards} shards; lower --shards "
            "(preprocessing.shards)"
        )
    return shards, -(-validation * shards // train)


def bounds(images: int, shards: int) -> list[tuple[int, int]]:
    """Return start and end of each shard; lengths differ by one at most."""
    edges = [images * shard // max(1, shards) for shard in range(shards + 1)]
    return list(pairwise(edges))


def _generator(seed: int, purpose: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed} {purpose}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def _none() -> Numbers:
    return np.empty(0, np.uint32)

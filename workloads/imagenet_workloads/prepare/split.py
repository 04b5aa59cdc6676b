"""Decides which images make which split: pure, on numbers of images and classes.

Rare classes go, the label is a class's position among the sorted names of the rest, the
validation images of each class are drawn with the seed, and each split is shuffled once, so that
reading its shards one after the other is already random.
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
    """Which classes stay.

    Attributes:
        names: sorted; a label is a position in it.
        dropped: the others, with their numbers of images.
        labels: of each class in the order in which it was found, DROPPED for the dropped.
    """

    names: tuple[str, ...]
    dropped: dict[str, int]
    labels: npt.NDArray[np.int64]


def choose_classes(
    found: Sequence[str], counts: Sequence[int], empty: Sequence[str], fewest: int
) -> Classes:
    """Keeps the classes with at least `fewest` images; none can have fewer than one.

    Args:
        found: the classes' names, in the order in which they were found.
        counts: their images.
        empty: names of classes without images.
        fewest: images.

    Raises:
        InputError: no class is left.
    """
    rare = {name: count for name, count in zip(found, counts, strict=True) if count < fewest}
    rare.update(dict.fromkeys(empty, 0))
    names = tuple(sorted(set(found) - rare.keys()))
    if not names:
        most = max(counts, default=0)
        raise InputError(
            f"no class has {max(fewest, 1)} images or more: the largest of "
            f"{len(set(found) | rare.keys())} has {most}; lower --min-images-per-class, "
            "or look at the source"
        )
    label = {name: position for position, name in enumerate(names)}
    labels = np.array([label.get(name, DROPPED) for name in found], np.int64)
    return Classes(names, dict(sorted(rare.items())), labels)


def draw(
    class_of: Numbers, found: Sequence[str], classes: Classes, per_class: int, seed: int
) -> tuple[Numbers, Numbers]:
    """Divides a source's images into training and validation images, both in order.

    A class's draw depends on its name, its number of images and the seed alone: other classes may
    come and go.

    Args:
        class_of: each image's class, by its position in `found`.
        found: the classes' names.
        classes: which of them stay.
        per_class: validation images of each class.
        seed: of the draws.

    Raises:
        InputError: a class would have no training image left.
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
            f"the class {name} has {count} images, and the validation takes {per_class} of each "
            "class; lower --validation-per-class, or raise --min-images-per-class"
        )
    return _generator(seed, name).choice(count, per_class, replace=False)


def shuffle(images: Numbers, seed: int, split: str) -> Numbers:
    """The images in the order of their keys; shuffles in place."""
    _generator(seed, f"order of {split}").shuffle(images)
    return images


def shard_counts(train: int, validation: int, shards: int) -> tuple[int, int]:
    """How many shards each split has: validation shards are about as large as training shards.

    Raises:
        InputError: a training shard would be empty.
    """
    if train < shards:
        raise InputError(f"{train} training images do not fill {shards} shards; lower --shards")
    return shards, -(-validation * shards // train)


def bounds(images: int, shards: int) -> list[tuple[int, int]]:
    """Start and end of each shard; lengths differ by one at most. No shards have no bounds."""
    edges = [images * shard // max(1, shards) for shard in range(shards + 1)]
    return list(pairwise(edges))


def _generator(seed: int, purpose: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed} {purpose}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def _none() -> Numbers:
    return np.empty(0, np.uint32)

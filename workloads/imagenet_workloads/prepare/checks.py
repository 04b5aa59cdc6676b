"""Checks of a dataset's images: the same image twice, unbalanced classes, small and blank images.

Pack hashes each image. Seal, `imagenet-inspect` and `imagenet-dataset check` compare the hashes
here. What is found is a warning.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from imagenet_workloads.dataset import Dataset, Shard
from imagenet_workloads.findings import NAMED, Copies, FewImages, Findings, Imbalance
from imagenet_workloads.prepare.codecs.perceptual_hash import NO_HASH
from imagenet_workloads.prepare.duplicates import similar_pairs
from imagenet_workloads.prepare.plan import TRAIN, VALIDATION
from imagenet_workloads.prepare.stores.blob import readable
from imagenet_workloads.records.image_list import ListedImage

REPORT = "duplicates.jsonl"

# A smaller image has so little detail that others are similar by chance, as handwritten digits
# are: only equal hashes count.
_LEAST_DETAIL = 32
# Each hash is compared further with so many similar ones, the nearest.
_MOST_NEIGHBOURS = 16
# The largest class has so many times the images of the smallest one.
_UNBALANCED = 10

_ROW = np.dtype([("hash", "<u8"), ("edge", "<i4"), ("label", "<i4"), ("validation", "?")])

ReadList = Callable[[Shard], Iterable[ListedImage] | None]


class Pair(NamedTuple):
    """An image that looks like another one, by their positions in the rows."""

    image: int
    like: int
    distance: int


@dataclass(frozen=True)
class Checked:
    """The findings of a dataset, and all pairs of its images that look alike."""

    findings: Findings
    pairs: Sequence[Mapping[str, Any]]

    def to_document(self, classes: int, train: int, validation: int) -> dict[str, Any]:
        return {
            "classes": classes,
            "images": {"train": train, "validation": validation},
            "findings": self.findings.to_document(),
            "warnings": list(self.findings.warnings),
            "duplicates": list(self.pairs),
        }


def as_rows(images: Iterable[tuple[int, int, int, bool]]) -> npt.NDArray[np.void]:
    """Images as an array of hash, shorter edge, label, and whether it is of validation.

    A label is the position of a class, or negative if it is unknown.
    """
    return np.fromiter(images, _ROW)


def check_shards(sealed: Dataset, read: ReadList, *, compares: bool = True) -> Checked | None:
    """Check a dataset by the lists of its images; None if an older shard has none."""
    splits = {TRAIN: sealed.train, VALIDATION: sealed.validation}
    shards = [
        (name == VALIDATION, shard) for name, split in splits.items() for shard in split.shards
    ]
    parts, begins = [], [0]
    for is_validation, shard in shards:
        listed = read(shard)
        if listed is None:
            return None
        rows = (
            (int(one.hash, 16), min(one.width, one.height), one.label, is_validation)
            for one in listed
        )
        parts.append(as_rows(rows))
        begins.append(begins[-1] + len(parts[-1]))

    def names(numbers: Sequence[int]) -> list[str]:
        """Read the lists again, because the names of all images would fill the memory."""
        found: list[str] = []
        edges = np.searchsorted(numbers, begins).tolist()
        for at, (_, shard) in enumerate(shards):
            places = {number - begins[at] for number in numbers[edges[at] : edges[at + 1]]}
            if places:
                listed = enumerate(read(shard) or ())
                found += [image.name for place, image in listed if place in places]
        return found

    per_class = dict(zip(sealed.classes, sealed.train.per_class or (), strict=False))
    edge = sealed.options.get("resize")
    return check(
        np.concatenate(parts) if parts else as_rows(()),
        names,
        sealed.classes,
        per_class,
        edge=edge if isinstance(edge, int) else None,
        compares=compares,
    )


def check(
    rows: npt.NDArray[np.void],
    names: Callable[[Sequence[int]], list[str]],
    classes: Sequence[str],
    per_class: Mapping[str, int],
    *,
    edge: int | None = None,
    compares: bool = True,
) -> Checked:
    """Check images, the result of `as_rows`.

    Args:
        rows: The images.
        names: Returns the names of images, by their ascending positions.
        classes: The class of each label.
        per_class: The training images of each class.
        edge: The shorter edge that the images get; None for the median of their own.
        compares: Whether to compare the images with each other.
    """
    leaks, near, is_whole = _similar(rows) if compares else ([], [], True)
    blank = np.flatnonzero(rows["hash"] == NO_HASH) if compares else np.empty(0, np.int64)
    least = (edge or int(np.median(rows["edge"])) if len(rows) else 0) // 2
    small = np.flatnonzero(rows["edge"] < least)
    wanted = {number for pair in (*leaks, *near) for number in pair[:2]}
    wanted.update(blank[:NAMED].tolist(), small[:NAMED].tolist())
    numbers = sorted(wanted)
    name_of = dict(zip(numbers, names(numbers), strict=True)) if numbers else {}

    def is_other(pair: Pair) -> bool:
        labels = rows["label"][[pair.image, pair.like]]
        return bool(labels[0] != labels[1] and labels.min() >= 0)

    def copies(pairs: Sequence[Pair]) -> Copies | None:
        if not pairs:
            return None
        # Those of another class first: a label is wrong.
        ranked = sorted(pairs, key=lambda pair: (not is_other(pair), pair.distance))[:NAMED]
        examples = (
            (_printable(name_of[one.image]), _printable(name_of[one.like])) for one in ranked
        )
        return Copies(len(pairs), sum(map(is_other, pairs)), tuple(examples))

    def few(found: npt.NDArray[np.int64]) -> FewImages | None:
        examples = tuple(_printable(name_of[number]) for number in found[:NAMED].tolist())
        return FewImages(len(found), examples) if len(found) else None

    findings = Findings(
        compared=len(rows) - len(blank) if compares else 0,
        is_whole=is_whole,
        in_training=copies(leaks),
        near_duplicates=copies(near),
        imbalance=_imbalance(per_class),
        least_edge=least,
        small=few(small),
        blank=few(blank),
    )

    def place(number: int) -> dict[str, str]:
        label = int(rows["label"][number])
        split = VALIDATION if rows["validation"][number] else TRAIN
        known = {"class": classes[label]} if label >= 0 else {}
        return {"name": name_of[number], "split": split, **known}

    lines = [
        {"image": place(one.image), "like": place(one.like), "distance": one.distance}
        for one in (*leaks, *near)
    ]
    return Checked(replace(findings, report=REPORT) if lines else findings, lines)


def _printable(name: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in readable(name))


def _imbalance(per_class: Mapping[str, int]) -> Imbalance | None:
    if not per_class:
        return None
    largest = max(per_class, key=lambda name: per_class[name])
    smallest = min(per_class, key=lambda name: per_class[name])
    if per_class[largest] < _UNBALANCED * max(1, per_class[smallest]):
        return None
    return Imbalance(largest, per_class[largest], smallest, per_class[smallest])


def _similar(rows: npt.NDArray[np.void]) -> tuple[list[Pair], list[Pair], bool]:
    """Return validation images with a training image, and images with an earlier one of the split.

    Each image is in a list once, with an image of another class if it looks like one, or with the
    most similar one. The last value says whether all were compared.
    """
    compared = np.flatnonzero(rows["hash"] != NO_HASH)
    hashes, first, of_hash, counts = np.unique(
        rows["hash"][compared], return_index=True, return_inverse=True, return_counts=True
    )
    pairs = similar_pairs(hashes)
    has_detail = rows["edge"][compared[first]] >= _LEAST_DETAIL
    similar: dict[int, list[tuple[int, int]]] = {
        number: [(number, 0)] for number in np.flatnonzero(counts > 1).tolist()
    }
    found = has_detail[pairs.first] & has_detail[pairs.second]
    for one, other, distance in zip(*(column[found].tolist() for column in pairs[:3]), strict=True):
        similar.setdefault(one, [(one, 0)]).append((other, distance))
        similar.setdefault(other, [(other, 0)]).append((one, distance))
    # Of a picture that thousands resemble, such as a camera's, the nearest are enough.
    similar = {
        number: sorted(neighbours, key=itemgetter(1))[:_MOST_NEIGHBOURS]
        for number, neighbours in similar.items()
    }
    # The images of a hash are neighbours in this order.
    order = compared[np.argsort(of_hash, kind="stable")]
    ends = np.cumsum(counts)
    members = {
        number: order[ends[number] - counts[number] : ends[number]].tolist() for number in similar
    }
    # All images of a hash look alike: one of each of two classes stands for them.
    stand_ins: dict[tuple[int, bool], list[int]] = {}
    labels, validation = rows["label"].tolist(), rows["validation"].tolist()
    for number, images in members.items():
        for image in images:
            chosen = stand_ins.setdefault((number, validation[image]), [])
            if not chosen or (len(chosen) < 2 and labels[chosen[0]] != labels[image]):
                chosen.append(image)

    def best(number: int, image: int, split: bool, end: int) -> Pair | None:
        """The image with one of a split that comes before `end`."""
        candidates = (
            Pair(image, like, distance)
            for other, distance in similar[number]
            for like in stand_ins.get((other, split), ())
            if like < end
        )
        return min(
            candidates,
            key=lambda pair: (labels[pair.like] == labels[image], pair.distance, pair.like),
            default=None,
        )

    leaks, near = [], []
    for number, images in members.items():
        for image in images:
            if validation[image]:
                leaks.append(best(number, image, split=False, end=len(rows)))
            near.append(best(number, image, split=validation[image], end=image))
    return (
        sorted(pair for pair in leaks if pair is not None),
        sorted(pair for pair in near if pair is not None),
        pairs.is_whole,
    )

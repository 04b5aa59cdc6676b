"""The images of each split: which of a source's train, which validate, and in which order.

Rare classes are dropped, and a label is the position of a class among the sorted names of the
others. The validation images of each class are drawn by the seed. Each split is shuffled once, so
that sequential reads of its shards are random, and its first images are a random sample: index
chooses the codec by it, and estimates the space and the time that packing takes.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import shards
from imagenet_workloads.prepare.bounding_boxes import AnnotatedImage, Boxes
from imagenet_workloads.prepare.codecs.codec import Codec, Recipe
from imagenet_workloads.prepare.plan import TRAIN, VALIDATION, Plan, PlannedImage, PlannedShard
from imagenet_workloads.prepare.scan import Scan
from imagenet_workloads.prepare.source import Location, ReadingEstimate, Source
from imagenet_workloads.prepare.sources.opening import sample_size, seconds_to_read
from imagenet_workloads.prepare.stores.blob import DamagedImageError
from imagenet_workloads.prepare.transcode import LARGEST_FILE, read_image, transcode
from imagenet_workloads.records.format import Format

_log = logging.getLogger(__name__)

Numbers = npt.NDArray[np.uint32]

DROPPED = -1
# Images of a sample.
SIZE = 32
# A label for itself takes NumPy as long as hundreds at once.
_AT_ONCE = 1024
# Larger images than these together are read again, rather than kept in memory.
_MOST_KEPT = 64 << 20
# The relative error of an estimate.
_MARGIN = 1.1


class Classes(NamedTuple):
    """The classes of the dataset."""

    names: tuple[str, ...]  # sorted names; a label is a position in it
    dropped: dict[str, int]  # other classes, with their numbers of images
    labels: npt.NDArray[np.int64]  # label of each class in the order of the listing, or DROPPED


def choose_classes(
    found: Sequence[str], counts: Sequence[int], empty: Sequence[str], fewest: int
) -> Classes:
    """Keep the classes with at least `fewest` images, and at least one.

    `found` and `counts` are in the order of the listing; `empty` are classes without images.

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
    classes. `class_of` has each image's class, as a position in `found`.

    Raises:
        InputError: A class would have no training image.
    """
    if per_class == 0:
        all_images = np.flatnonzero(classes.labels[class_of] != DROPPED).astype(np.uint32)
        return all_images, np.empty(0, np.uint32)
    # 0: not in the dataset, 1: training, 2: validation.
    role = (classes.labels != DROPPED).astype(np.uint8)[class_of]
    order = np.argsort(class_of, kind="stable").astype(np.uint32)
    start = 0
    for number, count in enumerate(np.bincount(class_of, minlength=len(found)).tolist()):
        if classes.labels[number] != DROPPED:
            if count <= per_class:
                raise InputError(
                    f"the class {found[number]} has {count} images, and the validation needs "
                    f"{per_class} of each class; lower --validation-per-class "
                    "(validation.split.imagesPerClass), or raise --min-images-per-class "
                    "(minImagesPerClass)"
                )
            drawn = _generator(seed, found[number]).choice(count, per_class, replace=False)
            role[order[start + drawn]] = 2
        start += count
    del order
    return (
        np.flatnonzero(role == 1).astype(np.uint32),
        np.flatnonzero(role == 2).astype(np.uint32),
    )


def shuffle(images: Numbers, seed: int, split: str) -> Numbers:
    """Shuffle the images in place into the order of their keys."""
    _generator(seed, f"order of {split}").shuffle(images)
    return images


def shard_counts(train: int, validation: int, shards: int) -> tuple[int, int]:
    """The shards of each split: validation shards are about as large as training shards.

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
    """Start and end of each shard; lengths differ by one at most."""
    edges = [images * shard // max(1, shards) for shard in range(shards + 1)]
    return list(pairwise(edges))


def _generator(seed: int, purpose: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed} {purpose}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


@dataclass(frozen=True)
class Part:
    """The images of one split."""

    source: Source
    scan: Scan
    numbers: Numbers  # images in the scan, in the order of their keys
    class_of: npt.NDArray[Any]  # class of each image of the scan, as a number
    labels: npt.NDArray[np.int64]  # label of each such number
    # Images left out, by the class that the training images lack.
    unknown: Mapping[str, int] = field(default_factory=dict)

    def locations(self, start: int, end: int) -> Iterator[Location]:
        for number in self.numbers[start:end]:
            offset, size, name = self.scan.row(int(number))
            yield Location(name, offset, size)

    def planned(self, start: int, end: int) -> Iterator[PlannedImage]:
        for first in range(start, end, _AT_ONCE):
            numbers = self.numbers[first : min(first + _AT_ONCE, end)]
            labels = self.labels[self.class_of[numbers]]
            found = zip(numbers.tolist(), labels.tolist(), strict=True)
            for position, (number, label) in enumerate(found, first):
                yield PlannedImage(position, label, *self.scan.row(number))


def count_boxes(boxes: Boxes, classes: Sequence[str], parts: dict[str, Part]) -> dict[str, int]:
    """Count the boxes of all planned images.

    Raises:
        InputError: None of the images has an annotation.
    """
    images = (
        AnnotatedImage(classes[image.label], image.name, name == VALIDATION)
        for name, part in parts.items()
        for image in part.planned(0, len(part.numbers))
    )
    counts = boxes.count(images, frozenset(classes))
    _log.info("%s", ", ".join(f"{name} {count}" for name, count in counts.items()))
    return counts


def planned_images(
    plan: Plan, parts: dict[str, Part], boxes: Boxes | None
) -> dict[str, Iterator[PlannedImage]]:
    """The images of each shard, in their order, with their boxes if there are any."""
    images: dict[str, Iterator[PlannedImage]] = {}
    for shard, start, end in _ranges(plan):
        found = parts[shard.split].planned(start, end)
        if boxes is not None:
            found = boxes.added(found, plan.classes, shard.split == VALIDATION)
        images[shard.name] = found
    return images


def reading(
    plan: Plan, parts: dict[str, Part], dataset: Path, listing: int
) -> ReadingEstimate | None:
    """What reading the images of the missing shards in one pod takes.

    Requests and bytes are those of the plan, and only the time is an estimate. None if no image is
    read from a server or bucket. `listing` are the requests that index has sent.

    Raises:
        InputError: They are more than the source may take.
    """
    needed = {
        split: (0, 0)
        for split, part in parts.items()
        if part.source.reads_at_once > 1 or part.source.limit is not None
    }
    for shard, start, end in _ranges(plan):
        if shard.split in needed and not shards.is_whole(dataset, shard):
            part, before = parts[shard.split], needed[shard.split]
            more = part.source.requests_to_read(part.locations(start, end))
            needed[shard.split] = before[0] + more[0], before[1] + more[1]
    requests = sum(more for more, _ in needed.values())
    source = parts[TRAIN].source
    if source.limit is not None:
        source.limit.require_plan(source.where, listing, requests)
    seconds = 0
    for split, (count, bytes) in needed.items():
        part = parts[split]
        sample = list(part.locations(0, sample_size(part.source)))
        seconds += seconds_to_read(part.source, sample, bytes) if count else 0
    bytes = sum(more for _, more in needed.values())
    return ReadingEstimate(requests, bytes, seconds) if requests else None


def _ranges(plan: Plan) -> Iterator[tuple[PlannedShard, int, int]]:
    """Yield each shard, and which images of its split it has."""
    ends = {TRAIN: 0, VALIDATION: 0}
    for shard in plan.shards:
        start = ends[shard.split]
        ends[shard.split] = start + shard.images
        yield shard, start, ends[shard.split]


class SourceSample:
    """The first images of a split that is shuffled and has at least one."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._kept: dict[int, bytes] = {}
        self.images = len(part.numbers)

    def read(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield the size of each image in bytes, and its content; None if it cannot be read."""
        for number, (name, offset, size) in enumerate(self._part.locations(0, SIZE)):
            content = self._kept.get(number)
            if content is None:
                try:
                    content = read_image(self._part.source, name, offset, size)
                except (DamagedImageError, PermissionError):
                    yield size if size <= LARGEST_FILE else 0, None
                    continue
                if sum(map(len, self._kept.values())) + len(content) <= _MOST_KEPT:
                    self._kept[number] = content
            yield size, content


def estimate_bytes(sample: SourceSample, recipe: Recipe, codec: Codec, format: Format) -> int:
    """Estimate the bytes of the shards of a split, by transcoding a sample of its images.

    Formulas by pixels and quality are wrong by a factor of two for some collections. A sample is
    more exact, and it shows early if a codec does not work or all images are damaged.
    """
    made = []
    for size, image in sample.read():
        try:
            made.append(size if image is None else len(transcode(image, recipe, codec).jpeg))
        except DamagedImageError:
            made.append(size)
    return int(_MARGIN * sample.images * (np.mean(made) + format.overhead))

"""The images of each split of a dataset, as index has chosen them."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imagenet_workloads.prepare import shards
from imagenet_workloads.prepare.bounding_boxes import AnnotatedImage, Boxes
from imagenet_workloads.prepare.plan import TRAIN, VALIDATION, Plan, PlannedImage, PlannedShard
from imagenet_workloads.prepare.scan import Scan
from imagenet_workloads.prepare.source import Location, ReadingEstimate, Source
from imagenet_workloads.prepare.sources.reading_estimate import sample_size, seconds_to_read
from imagenet_workloads.prepare.split import Numbers

_log = logging.getLogger(__name__)

# A label for itself takes NumPy as long as hundreds at once.
_AT_ONCE = 1024


@dataclass(frozen=True)
class Part:
    """The images of one split.

    Attributes:
        source: Their source.
        scan: of the source.
        numbers: The images in the scan, in the order of their keys.
        class_of: The class of each image of the scan, as a number.
        labels: The label of each such number.
        unknown: images left out, by the class that the training images lack.
    """

    source: Source
    scan: Scan
    numbers: Numbers
    class_of: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]
    unknown: Mapping[str, int] = field(default_factory=dict)

    def locations(self, start: int, end: int) -> Iterator[Location]:
        """Yield where the images at these positions of `numbers` are."""
        for number in self.numbers[start:end]:
            offset, size, name = self.scan.row(int(number))
            yield Location(name, offset, size)

    def planned(self, start: int, end: int) -> Iterator[PlannedImage]:
        """Yield the images at these positions of `numbers`."""
        for first in range(start, end, _AT_ONCE):
            numbers = self.numbers[first : min(first + _AT_ONCE, end)]
            labels = self.labels[self.class_of[numbers]]
            found = zip(numbers.tolist(), labels.tolist(), strict=True)
            for position, (number, label) in enumerate(found, first):
                yield PlannedImage(position, label, *self.scan.row(number))


def count_boxes(boxes: Boxes, classes: Sequence[str], parts: dict[str, Part]) -> dict[str, int]:
    """Return the counts of the boxes of all planned images.

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
    """Return the images of each shard, in their order, with their boxes if there are any."""
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
    """Return what reading the images of the missing shards in one pod takes.

    Requests and bytes are those of the plan, and only the time is an estimate. None if no image is
    read from a server or bucket.

    Args:
        plan: The plan.
        parts: The images of each split.
        dataset: The dataset's folder, which need not exist.
        listing: The requests that index has sent.

    Raises:
        InputError: They are more than the source may take.
    """
    needed = {
        split: _requests(plan, split, part, dataset)
        for split, part in parts.items()
        if part.source.reads_at_once > 1 or part.source.limit is not None
    }
    requests = sum(more for more, _ in needed.values())
    source = parts[TRAIN].source
    if source.limit is not None:
        source.limit.require_plan(source.where, listing, requests)
    seconds = 0
    for split, (more, bytes) in needed.items():
        part = parts[split]
        sample = list(part.locations(0, sample_size(part.source)))
        seconds += seconds_to_read(part.source, sample, bytes) if more else 0
    bytes = sum(more for _, more in needed.values())
    return ReadingEstimate(requests, bytes, seconds) if requests else None


def _requests(plan: Plan, split: str, part: Part, dataset: Path) -> tuple[int, int]:
    """Return the requests for the images of a split's missing shards, and their bytes."""
    requests = bytes = 0
    for shard, start, end in _ranges(plan):
        if shard.split == split and not shards.is_whole(dataset, shard):
            more = part.source.requests_to_read(part.locations(start, end))
            requests, bytes = requests + more[0], bytes + more[1]
    return requests, bytes


def _ranges(plan: Plan) -> Iterator[tuple[PlannedShard, int, int]]:
    """Yield each shard, and which images of its split it has."""
    ends = {TRAIN: 0, VALIDATION: 0}
    for shard in plan.shards:
        start = ends[shard.split]
        ends[shard.split] = start + shard.images
        yield shard, start, ends[shard.split]

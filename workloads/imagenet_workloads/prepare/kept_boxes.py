"""The bounding boxes of a sealed dataset, for the one that is made from it.

Boxes are fractions of an image, so a resize leaves them as they are. The file of boxes has those of
all images, in the order of the records.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.dataset import BoundingBoxes, damaged
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.bounding_boxes import AnnotatedImage
from imagenet_workloads.prepare.plan import TRAIN, VALIDATION, PlannedImage
from imagenet_workloads.prepare.sources.prepared import SealedSplit
from imagenet_workloads.records.format import Box

_Boxes = tuple[Box, ...]


class KeptBoxes:
    """The boxes of both splits, by the number of the record."""

    def __init__(self, folder: Path, boxes: BoundingBoxes, splits: Sequence[SealedSplit]) -> None:
        """Read the file of boxes.

        Args:
            folder: The folder of dataset.json.
            boxes: What dataset.json says of it.
            splits: The splits that have images.

        Raises:
            InputError: The file cannot be read, or is not as dataset.json says.
        """
        self._counts = dict(boxes.counts)
        self._sha256 = boxes.sha256
        found = _read(folder / boxes.file, boxes.sha256)
        self._of: dict[str, dict[int, _Boxes]] = {TRAIN: {}, VALIDATION: {}}
        for split in splits:
            by_key = found[split.plan_fields["split"]]
            numbers = split.with_boxes(list(by_key))
            self._of[split.plan_fields["split"]] = dict(zip(numbers, by_key.values(), strict=True))

    def fingerprint(self) -> str:
        """Return the hex SHA-256 of the file of boxes."""
        return self._sha256

    def count(self, images: Iterable[AnnotatedImage], classes: Collection[str]) -> dict[str, int]:
        """Return the counts of the sealed dataset, whose images all stay."""
        del images, classes
        return dict(self._counts)

    def added(
        self, images: Iterable[PlannedImage], classes: Sequence[str], is_validation: bool
    ) -> Iterator[PlannedImage]:
        """Yield the images of a split with their boxes."""
        del classes
        found = self._of[VALIDATION if is_validation else TRAIN]
        for image in images:
            yield image._replace(boxes=found.get(image.offset, ()))


def _read(path: Path, sha256: str) -> Mapping[str, dict[int, _Boxes]]:
    """Return the boxes by split and key.

    Raises:
        InputError: The file cannot be read, or has other bytes.
    """
    try:
        content = files.read_bytes(path)
    except OSError as error:
        raise damaged(path, f"cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise damaged(path, "has another checksum than in dataset.json")
    found: dict[str, dict[int, _Boxes]] = {TRAIN: {}, VALIDATION: {}}
    for number, line in enumerate(content.splitlines(), start=1):
        image = Fields.of(json.loads(line), f"{path}, line {number}")
        boxes = tuple(Box(*edges) for edges in image.fractions("boxes"))
        found[image.text("split")][image.integer("key")] = boxes
    return found

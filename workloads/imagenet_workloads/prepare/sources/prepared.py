"""The kind `prepared`: the records of a sealed dataset, from which another one is made.

Classes, words, boxes, the validation images and the order of the records stay. So records are read
from end to end, and the new dataset depends only on the key of the old one and on the options.
"""

import hashlib
import json
from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from imagenet_workloads import files
from imagenet_workloads.dataset import (
    RECORD_IO,
    BoundingBoxes,
    Dataset,
    damaged,
    packed_before_document,
    read_dataset,
    require_whole,
)
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.bounding_boxes import AnnotatedImage
from imagenet_workloads.prepare.plan import TRAIN, VALIDATION, PlannedImage
from imagenet_workloads.prepare.source import Image, Notes, Source, Validation
from imagenet_workloads.prepare.sources.kind import SourceKind
from imagenet_workloads.prepare.stores.blob import changed
from imagenet_workloads.records.format import Box

if TYPE_CHECKING:
    from imagenet_workloads.records.split import Records

# A feature of each Example with boxes, and of no other.
_BOXES = b"image/object/bbox/xmin"


class SealedSplit(Source):
    """The images of one split; an image's offset is the number of its record."""

    kind = "sealed dataset"

    def __init__(self, folder: Path, dataset: Dataset, split: str) -> None:
        # Imported here: the parsers must be importable without NumPy.
        from imagenet_workloads.records.split import open_split

        content = dataset.train if split == TRAIN else dataset.validation
        self.where = str(folder)
        self.plan_fields = {"split": split, **packed_before_document(dataset.packings)}
        self.version = {"key": dataset.key}
        self.sealed: Dataset = dataset
        self._records: Records = open_split(content, dataset.format, folder)
        if split == TRAIN and dataset.validation.images:
            self.own_validation = lambda: Validation(SealedSplit(folder, dataset, VALIDATION), None)

    def scan(self, notes: Notes) -> Iterator[Image]:
        classes, split = self.sealed.classes, self.plan_fields["split"]
        for number in range(self._records.count):
            label = self._records.label(number)
            if not 0 <= label < len(classes):
                raise self._records.damaged(number, f"has the label {label}")
            notes.share = number / self._records.count
            size = self._records.size([number])
            yield Image(classes[label], f"{split}/{number}.jpeg", number, size, 0)

    def read(self, name: str, offset: int, size: int) -> bytes:
        if offset >= self._records.count or self._records.size([offset]) != size:
            raise changed(self.where, f"{name} has another size")
        return self._records.parse(offset, self._record(offset)).encoded

    def with_boxes(self, keys: Sequence[int]) -> list[int]:
        """The numbers of the records with boxes, of which these are the ascending keys."""
        if self.sealed.format == RECORD_IO:
            numbers = {int(key): number for number, key in enumerate(self._records.identities())}
            found = [numbers[key] for key in keys if key in numbers]
        else:
            found = [one for one in range(self._records.count) if _BOXES in self._record(one)]
        if len(found) != len(keys):
            raise InputError(
                f"{self.where}: {len(found)} of its {self.plan_fields['split']} images have "
                f"bounding boxes, and its file of boxes has {len(keys)}; prepare the raw images "
                "again"
            )
        return found

    def close(self) -> None:
        self._records.close()

    def _record(self, number: int) -> bytes:
        return self._records.read(range(number, number + 1))[0]


class PreparedKind(SourceKind):
    """The folder of a sealed dataset."""

    name = "prepared"
    options = "--prepared"
    planned_as = (SealedSplit.kind,)

    def is_given(self, parsed: Namespace) -> bool:
        return parsed.prepared is not None

    def mistake(self, parsed: Namespace) -> str | None:
        if parsed.prepared is None:
            return None
        given = {
            "--validation-per-class": parsed.validation_per_class is not None,
            "--bounding-boxes": bool(parsed.bounding_boxes),
        }
        wrong = next((option for option, is_given in given.items() if is_given), None)
        return (
            None if wrong is None else f"{wrong} does not go with --prepared, which keeps its own"
        )

    def open(self, parsed: Namespace) -> Source:
        folder, dataset = parsed.prepared, read_dataset(parsed.prepared)
        edges = [one.resize for one in dataset.packings or () if one.resize is not None]
        stored = edges[-1] if edges else None
        if stored is not None and parsed.resize is not None and parsed.resize > stored:
            raise InputError(
                f"--resize (preprocessing.resize): {parsed.resize} pixels are more than the "
                f"{stored} of {folder}, whose images cannot grow; write at most {stored}, or "
                "prepare the raw images again"
            )
        require_whole(dataset, folder)
        return SealedSplit(folder, dataset, TRAIN)

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        if parsed.prepared is None:
            raise InputError(
                f"--prepared (source.prepared) is missing: the plan needs a {SealedSplit.kind}"
            )
        dataset = read_dataset(parsed.prepared)
        key = planned.object("version").text("key")
        if dataset.key != key:
            raise changed(str(parsed.prepared), f"is the dataset {dataset.key}, not {key}")
        return SealedSplit(parsed.prepared, dataset, planned.text("split"))


_BoxesOfImage = tuple[Box, ...]


class KeptBoxes:
    """The boxes of both splits, by the number of the record."""

    def __init__(self, folder: Path, boxes: BoundingBoxes, splits: Sequence[SealedSplit]) -> None:
        """Reads the file of boxes, of which dataset.json in the folder says what `boxes` has."""
        self._counts = dict(boxes.counts)
        self._sha256 = boxes.sha256
        path = folder / boxes.file
        try:
            content = files.read_bytes(path)
        except OSError as error:
            raise damaged(path, f"cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != boxes.sha256:
            raise damaged(path, "has another checksum than in dataset.json")
        # By split and key.
        found: dict[str, dict[int, _BoxesOfImage]] = {TRAIN: {}, VALIDATION: {}}
        for number, line in enumerate(content.splitlines(), start=1):
            image = Fields.of(json.loads(line), f"{path}, line {number}")
            edges = image.fractions("boxes")
            found[image.text("split")][image.integer("key")] = tuple(Box(*one) for one in edges)
        self._of: dict[str, dict[int, _BoxesOfImage]] = {TRAIN: {}, VALIDATION: {}}
        for split in splits:
            by_key = found[split.plan_fields["split"]]
            numbers = split.with_boxes(list(by_key))
            self._of[split.plan_fields["split"]] = dict(zip(numbers, by_key.values(), strict=True))

    def fingerprint(self) -> str:
        return self._sha256

    def count(self, images: Iterable[AnnotatedImage], classes: Collection[str]) -> dict[str, int]:
        """The counts of the sealed dataset, whose images all stay."""
        del images, classes
        return dict(self._counts)

    def added(
        self, images: Iterable[PlannedImage], classes: Sequence[str], is_validation: bool
    ) -> Iterator[PlannedImage]:
        del classes
        found = self._of[VALIDATION if is_validation else TRAIN]
        for image in images:
            yield image._replace(boxes=found.get(image.offset, ()))

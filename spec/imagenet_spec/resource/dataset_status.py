"""`status.dataset`: the dataset of a job, and what reading its source takes."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import MaxLen
from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from imagenet_spec.resource.base import Model, Unit
from imagenet_spec.resource.fields import LongCount, Speed

Findings = Annotated[tuple[Annotated[str, MaxLen(1024)], ...], MaxLen(8)]
"""Sentences of the check of a dataset."""


class ImageCounts(Model):
    """Images of a dataset."""

    train: LongCount = 0
    """Training images."""

    validation: LongCount = 0
    """Validation images."""


class FetchStatus(Model):
    """The source's files in the cache."""

    bytes: LongCount = 0
    """Bytes of the files that are in the cache."""

    total_bytes: LongCount | None = None
    """Bytes of all files; absent while they are unknown."""

    estimated_remaining_seconds: Annotated[LongCount, Unit("seconds")] | None = None
    """The estimated remaining time, at the speed of the last minutes."""

    files: LongCount | None = None
    """Files of the source, while the server is asked for their versions; absent after it."""

    asked_files: LongCount | None = None
    """Files whose version is known; absent like `files`."""


class ReadingStatus(Model):
    """What a step takes that reads the source in place."""

    requests: LongCount
    """Requests to the server."""

    bytes: LongCount
    """Bytes of the answers."""

    estimated_seconds: Annotated[LongCount, Unit("seconds")]
    """The time, at the speed of a sample."""


class BoundingBoxCounts(Model):
    """The boxes of a dataset's images."""

    images: LongCount = 0
    """Images with boxes."""

    boxes: LongCount = 0
    """Boxes in the dataset."""

    clamped: LongCount = 0
    """Boxes that reached beyond their image, and end at its edge now."""

    empty: LongCount = 0
    """Boxes that were left out because they have no area in their image."""

    of_other_classes: LongCount = 0
    """Boxes that were left out because they have another class than their image."""

    damaged_annotations: LongCount = 0
    """Annotations that were skipped; the log of index names the first ones."""

    annotations_without_image: LongCount = 0
    """Annotations of images that the dataset lacks."""


class LeftOutImages(Model):
    """Images of the source that are not in the dataset."""

    count: LongCount = 0
    """Their number; of hidden folders, and of a test split that is not listed, the number of its
    files and folders."""

    example: Annotated[str, MaxLen(4096)] = ""
    """The path of one."""


class DecisionStatus(Model):
    """How the source was read, and by which codec its images are converted."""

    said: Annotated[str, MaxLen(8192)] = ""
    """The layout, where the classes and the validation images come from, and what is left out."""

    warnings: Annotated[tuple[Annotated[str, MaxLen(8192)], ...], MaxLen(8)] | None = None
    """What may be meant otherwise, with the field to write."""

    left_out: Annotated[dict[str, LeftOutImages], MaxLen(16)] | None = None
    """Images that are left out, by the rule that does so."""

    codec: Annotated[str, MaxLen(8192)] | None = None
    """The codec, and why it was chosen; absent if images are only copied."""


# What index counts by these rules, which are no images: one, several, and what follows.
NOT_IMAGES = {
    "hidden folders": ("hidden folder", "hidden folders", ""),
    "files and folders of a test split, not listed": (
        "file or folder", "files and folders", " of a test split, not listed",
    ),
}  # fmt: skip

_BEFORE_LISTED = ("fetch", "listing", "packing")


class DatasetStatus(Model):
    """The prepared dataset; before its images are listed, it has only what these take."""

    key: Annotated[str, MaxLen(1024)] = ""
    """The hash of all that determines the dataset's bytes; its folder is ``datasets/KEY``."""

    classes: LongCount = 0
    """Classes in the dataset."""

    images: ImageCounts = ImageCounts()
    """Images in the dataset."""

    shards: LongCount = 0
    """Shards of both splits together."""

    fetch: FetchStatus | None = None
    """The source's files in the cache, if the source has one."""

    listing: ReadingStatus | None = None
    """What listing the source takes, if it is an archive on a server that is read in place. Index
    estimates it by the first images, before it begins."""

    packing: ReadingStatus | None = None
    """What reading the images takes, if they are read in place: estimated as `listing`, and after
    index by the plan. The time is the least one: decoding may take longer."""

    dropped_classes: LongCount = 0
    """Classes that were dropped for too few images."""

    skipped_images: LongCount = 0
    """Damaged images that were skipped; skipped.jsonl in the dataset's folder lists them."""

    unknown_labels: LongCount | None = None
    """Validation images that were left out because their label names a class that the training
    images lack; dataset.json names the classes."""

    passed_over: Annotated[dict[str, LongCount], MaxLen(32)] | None = None
    """Files of the source that are no images, by suffix."""

    decision: DecisionStatus | None = None
    """How the source was read, if its layout was judged by its listing, and the codec."""

    bounding_boxes: BoundingBoxCounts | None = None
    """The boxes of the images, if the source names annotations."""

    findings: Findings | None = None
    """What the check of the sealed dataset has found, such as an image in training and validation;
    dataset.json has examples. Absent without findings, or if an older version sealed it."""

    decoded_images_per_second: Speed | None = None
    """Images of the dataset that one core decodes in a second, as pack measured with a few of them.
    Absent if the dataset was sealed before."""

    sealed: bool = False
    """Whether the dataset is complete."""

    @model_validator(mode="after")
    def _has_counts(self) -> DatasetStatus:
        """Refuse a key without counts: index writes all of them."""
        if self.key and not {"classes", "images", "shards"} <= self.model_fields_set:
            raise ValueError("has a key, but lacks classes, images or shards")
        return self

    @model_serializer(mode="wrap")
    def _serialized(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the counts before the images are listed: zeros would be wrong."""
        fields: dict[str, Any] = dump(self)
        if self.key:
            return fields
        return {name: value for name, value in fields.items() if name in _BEFORE_LISTED}

    @property
    def left_out(self) -> str:
        """What the dataset lacks of its source, in words; empty if nothing."""
        others = self.passed_over or {}
        boxes = self.bounding_boxes or BoundingBoxCounts()
        decision = self.decision or DecisionStatus()
        suffixes = ", ".join(f"{suffix} {count:,}" for suffix, count in others.items())
        unknown = self.unknown_labels or 0
        of_unknown = "of an unknown class" if unknown == 1 else "of unknown classes"
        kinds = (
            (self.dropped_classes, "class", "classes", " with too few images"),
            (self.skipped_images, "damaged image", "damaged images", ""),
            (unknown, "validation image", "validation images", f" {of_unknown}"),
            (sum(others.values()), "other file", "other files", f" ({suffixes})"),
            (boxes.empty, "empty bounding box", "empty bounding boxes", ""),
            (boxes.of_other_classes, "bounding box", "bounding boxes", " of other classes"),
            (boxes.damaged_annotations, "damaged annotation", "damaged annotations", ""),
        )
        by_rule = tuple(
            (found.count, *NOT_IMAGES.get(rule, ("image", "images", f" ({rule})")))
            for rule, found in (decision.left_out or {}).items()
        )
        return ", ".join(
            f"{count:,} {one if count == 1 else many}{more}"
            for count, one, many, more in (*kinds, *by_rule)
            if count
        )

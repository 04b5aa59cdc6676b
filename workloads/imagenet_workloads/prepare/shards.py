"""The sidecar of a shard, which is written last, when the shard is complete.

It has the sums for the colours' mean and deviation, and the damaged images. How many of these may
be left out is in `limits.json` beside the plan. That is no part of the plan and the key, because it
changes no byte of a dataset: a run with a higher limit continues with the existing shards.
"""

import json
import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import cv2
import numpy as np

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.codecs.codec import Pixels
from imagenet_workloads.prepare.plan import Plan, PlannedShard
from imagenet_workloads.prepare.stores.blob import readable

_log = logging.getLogger(__name__)

VERSION = 1
_LIMITS = "limits.json"
_NAMED = 10

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class ChannelStatistics:
    """Sums over sampled pixels of images, for red, green and blue."""

    points: int = 0
    sums: Triple = (0, 0, 0)  # of their values, 0 to 255
    squares: Triple = (0, 0, 0)  # of the values' squares

    @classmethod
    def of(cls, images: Sequence[Pixels]) -> Self:
        """Sum the pixels of images, each height x width x RGB."""
        if not images:
            return cls()
        points = np.concatenate([pixels.reshape(-1, 1, 3) for pixels in images])
        # OpenCV sums in doubles, which are exact for integers of this size.
        red, green, blue, _ = cv2.sumElems(points)
        squares = cv2.multiply(points, points, dtype=cv2.CV_32F)
        red2, green2, blue2, _ = cv2.sumElems(squares)
        sums, sums2 = (int(red), int(green), int(blue)), (int(red2), int(green2), int(blue2))
        return cls(len(points), sums, sums2)

    def __add__(self, other: "ChannelStatistics") -> "ChannelStatistics":
        return ChannelStatistics(
            self.points + other.points,
            _added(self.sums, other.sums),
            _added(self.squares, other.squares),
        )

    def mean(self) -> tuple[float, float, float]:
        """The mean of each colour; 0 without pixels."""
        red, green, blue = (value / max(1, self.points) for value in self.sums)
        return red, green, blue

    def std(self) -> tuple[float, float, float]:
        # Integers up to the root: the difference of two large floats would lose digits.
        red, green, blue = (
            math.sqrt(self.points * square - value * value) / max(1, self.points)
            for value, square in zip(self.sums, self.squares, strict=True)
        )
        return red, green, blue

    def to_document(self) -> dict[str, Any]:
        return {"points": self.points, "sums": list(self.sums), "squares": list(self.squares)}

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        return cls(fields.integer("points"), _triple(fields, "sums"), _triple(fields, "squares"))


def _added(one: Triple, other: Triple) -> Triple:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _triple(fields: Fields, name: str) -> Triple:
    values = fields.integers(name)
    if len(values) != 3:
        raise fields.wrong(name, "must be three whole numbers, one a colour")
    return values[0], values[1], values[2]


class SkippedImage(NamedTuple):
    """A damaged image that was skipped."""

    name: str
    class_name: str
    reason: str

    def to_document(self) -> dict[str, str]:
        return {"name": self.name, "class": self.class_name, "reason": self.reason}


class ImageBoxes(NamedTuple):
    """The boxes of one image, each xmin, ymin, xmax, ymax as fractions of the image."""

    key: int  # image's number in the split, which is also its key in the shard's index
    boxes: tuple[Sequence[float], ...]

    def to_document(self) -> dict[str, Any]:
        return {"key": self.key, "boxes": [list(box) for box in self.boxes]}


@dataclass(frozen=True)
class Sidecar:
    """The content of a sidecar."""

    key: str
    records: int
    bytes: int  # length of the file of records
    record_sha256: str  # hex SHA-256 of the file of records
    index_sha256: str | None  # hex SHA-256 of its index; None if an older version wrote none
    per_class: tuple[int, ...]  # images of each class, by label
    statistics: ChannelStatistics
    skipped: tuple[SkippedImage, ...]
    boxes: tuple[ImageBoxes, ...] = ()  # boxes of each image that has any
    image_list_sha256: str | None = None  # none in older versions

    def to_json(self) -> str:
        """The text of the sidecar; equal shards have equal bytes."""
        optional = {"indexSha256": self.index_sha256, "imageListSha256": self.image_list_sha256}
        document: dict[str, Any] = {
            "version": VERSION,
            "key": self.key,
            "records": self.records,
            "bytes": self.bytes,
            "sha256": self.record_sha256,
            **{name: value for name, value in optional.items() if value is not None},
            "perClass": list(self.per_class),
            "channels": self.statistics.to_document(),
            "skipped": [image.to_document() for image in self.skipped],
            **({"boxes": [image.to_document() for image in self.boxes]} if self.boxes else {}),
        }
        return json.dumps(document) + "\n"

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        if fields.integer("version") != VERSION:
            raise fields.wrong("version", f"is not {VERSION}, which this program reads")
        return cls(
            key=fields.text("key"),
            records=fields.integer("records"),
            bytes=fields.integer("bytes"),
            record_sha256=fields.text("sha256"),
            index_sha256=_sha256(fields, "indexSha256"),
            image_list_sha256=_sha256(fields, "imageListSha256"),
            per_class=fields.integers("perClass"),
            statistics=ChannelStatistics.from_fields(fields.object("channels")),
            skipped=tuple(
                SkippedImage(image.text("name"), image.text("class"), image.text("reason"))
                for image in fields.objects("skipped")
            ),
            boxes=tuple(
                ImageBoxes(image.integer("key"), tuple(image.fractions("boxes")))
                for image in (fields.objects("boxes") if fields.has("boxes") else ())
            ),
        )


def _sha256(fields: Fields, name: str) -> str | None:
    return fields.text(name) if fields.has(name) else None


def read(dataset: Path, shard: PlannedShard) -> Sidecar:
    """Read the sidecar of a shard.

    Raises:
        InputError: It is missing or invalid, or lacks the index that the format requires.
    """
    fields = Fields.read(dataset / shard.sidecar)
    sidecar = Sidecar.from_fields(fields)
    if sidecar.index_sha256 is None and shard.format.requires_index:
        raise fields.wrong("indexSha256", "is missing")
    return sidecar


def read_if_possible(sidecar: Path) -> Sidecar | None:
    """Read a sidecar by its path; None if it cannot be read."""
    try:
        return Sidecar.from_fields(Fields.read(sidecar))
    except InputError:
        return None


def is_whole(dataset: Path, shard: PlannedShard) -> bool:
    """Whether a shard is complete: it has a sidecar, and the files in it.

    A sidecar that cannot be read, as one that was cut off, is as good as none. A shard of an older
    version is complete without an index, or without a list of its images.
    """
    if not (dataset / shard.sidecar).exists():
        return False
    try:
        sidecar = read(dataset, shard)
        has_index = sidecar.index_sha256 is None or (dataset / shard.index).exists()
        has_list = sidecar.image_list_sha256 is None or (dataset / shard.image_list).exists()
        return has_index and has_list and sidecar.bytes == (dataset / shard.record).stat().st_size
    except (FileNotFoundError, InputError):
        return False


def bytes_present(dataset: Path, plan: Plan) -> int:
    """The bytes of the complete shards."""
    return sum(
        (dataset / shard.record).stat().st_size for shard in plan.shards if is_whole(dataset, shard)
    )


def write_limit(dataset: Path, max_skipped_fraction: float) -> None:
    """Says how large a share of the images may be damaged; the latest run's word counts."""
    content = json.dumps({"maxSkippedFraction": max_skipped_fraction}).encode() + b"\n"
    path = dataset / _LIMITS
    if not path.exists() or path.read_bytes() != content:
        files.write_file(path, content)


def read_limit(dataset: Path, images: int) -> int:
    """How many of so many images may be damaged."""
    fields = Fields.read(dataset / _LIMITS)
    fraction = fields.values.get("maxSkippedFraction")
    if not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
        raise fields.wrong("maxSkippedFraction", "must be a number from 0 to 1")
    return allowed_images(fraction, images)


def allowed_images(max_skipped_fraction: float, images: int) -> int:
    """How many images such a share of them is, rounded down."""
    # 0.29 * 100 is a little less than 29.
    return math.floor(max_skipped_fraction * images + 1e-9)


def too_many(skipped: Sequence[SkippedImage], images: int, allowed: int, where: str) -> InputError:
    """The error for more damaged images than are allowed; the caller raises it.

    The log or the report has those that it does not name.
    """
    first = "; ".join(f"{readable(image.name)}: {image.reason}" for image in skipped[:_NAMED])
    return InputError(
        f"{len(skipped)} damaged images in {where}, and {allowed} of {images} are allowed "
        f"({first}{'; …' if len(skipped) > _NAMED else ''}); mend or remove them, or raise "
        "--max-skipped-fraction (maxSkippedFraction)"
    )


def check_unknown_labels(
    where: str,
    unknown: Counter[str],
    class_names: Sequence[str],
    images: int,
    allowed: int,
    remedy: str = "correct the labels",
) -> None:
    """Warn of validation images whose classes the training images lack; too many are an error."""
    count = unknown.total()
    if not count:
        return
    similar = {name.strip().casefold(): name for name in class_names}
    first = []
    for name, number in unknown.most_common(_NAMED):
        meant = similar.get(name.strip().casefold())
        hint = "" if meant is None else f"; the training images have {meant}"
        first.append(f"{readable(name)} ({number} {'image' if number == 1 else 'images'}{hint})")
    named = ", ".join(first) + (", …" if len(unknown) > len(first) else "")
    lacking = f"{count} of {images} validation images are of classes that the training images lack"
    if count > allowed:
        raise InputError(
            f"{where}: {lacking}, and {allowed} are allowed: {named}; {remedy}, or raise "
            "--max-skipped-fraction (maxSkippedFraction)"
        )
    _log.warning("%s: %s, and left out: %s", where, lacking, named)

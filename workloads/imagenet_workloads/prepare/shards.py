"""The sidecar of a shard, which is written last, when the shard is complete."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.channel_statistics import ChannelStatistics
from imagenet_workloads.prepare.plan import Plan, PlannedShard

VERSION = 1


class SkippedImage(NamedTuple):
    """A damaged image that was skipped."""

    name: str
    class_name: str
    reason: str

    def to_document(self) -> dict[str, str]:
        """As JSON values."""
        return {"name": self.name, "class": self.class_name, "reason": self.reason}


class ImageBoxes(NamedTuple):
    """The boxes of one image, each xmin, ymin, xmax, ymax as fractions of the image.

    Attributes:
        key: The image's number in the split, which is also its key in the shard's index.
        boxes: The boxes.
    """

    key: int
    boxes: tuple[Sequence[float], ...]

    def to_document(self) -> dict[str, Any]:
        """As JSON values."""
        return {"key": self.key, "boxes": [list(box) for box in self.boxes]}


@dataclass(frozen=True)
class Sidecar:
    """The content of a sidecar.

    Attributes:
        key: The dataset's key.
        records: The number of images.
        bytes: The length of the file of records.
        record_sha256: The hex SHA-256 of the file of records.
        index_sha256: The hex SHA-256 of its index; None if an older version wrote none.
        per_class: The images of each class, by label.
        statistics: The statistics of the images' colours.
        skipped: The damaged images that were skipped.
        boxes: The boxes of each image that has any.
    """

    key: str
    records: int
    bytes: int
    record_sha256: str
    index_sha256: str | None
    per_class: tuple[int, ...]
    statistics: ChannelStatistics
    skipped: tuple[SkippedImage, ...]
    boxes: tuple[ImageBoxes, ...] = ()

    def to_json(self) -> str:
        """Return the text of the sidecar; equal shards have equal bytes."""
        document: dict[str, Any] = {
            "version": VERSION,
            "key": self.key,
            "records": self.records,
            "bytes": self.bytes,
            "sha256": self.record_sha256,
            **({} if self.index_sha256 is None else {"indexSha256": self.index_sha256}),
            "perClass": list(self.per_class),
            "channels": self.statistics.to_document(),
            "skipped": [image.to_document() for image in self.skipped],
            **({"boxes": [image.to_document() for image in self.boxes]} if self.boxes else {}),
        }
        return json.dumps(document) + "\n"

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        """Parse the result of `to_json`.

        Raises:
            InputError: It is of another version, or a field is missing or invalid.
        """
        if fields.integer("version") != VERSION:
            raise fields.wrong("version", f"is not {VERSION}, which this program reads")
        return cls(
            key=fields.text("key"),
            records=fields.integer("records"),
            bytes=fields.integer("bytes"),
            record_sha256=fields.text("sha256"),
            index_sha256=fields.text("indexSha256") if fields.has("indexSha256") else None,
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


def index_sha256(sidecar: Path) -> str | None:
    """Return the checksum of a shard's index; None if the sidecar has none or cannot be read."""
    try:
        return Sidecar.from_fields(Fields.read(sidecar)).index_sha256
    except InputError:
        return None


def is_whole(dataset: Path, shard: PlannedShard) -> bool:
    """Whether a shard is complete: it has a sidecar, and the files in it.

    A sidecar that cannot be read, as one that was cut off, is as good as none. A shard of an older
    version is complete without an index.
    """
    if not (dataset / shard.sidecar).exists():
        return False
    try:
        sidecar = read(dataset, shard)
        has_index = sidecar.index_sha256 is None or (dataset / shard.index).exists()
        return has_index and sidecar.bytes == (dataset / shard.record).stat().st_size
    except (FileNotFoundError, InputError):
        return False


def bytes_present(dataset: Path, plan: Plan) -> int:
    """Return the bytes of the complete shards."""
    return sum(
        (dataset / shard.record).stat().st_size for shard in plan.shards if is_whole(dataset, shard)
    )

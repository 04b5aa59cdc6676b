"""The plan of index for pack and seal: plan.json, and a list of images for each shard.

A dataset's folder is `datasets/KEY/`. The key is a hash of its input and of the options that change
its bytes: equal input and options have the same key; different bytes have different keys. The plan
is the folder `plan/`, which is renamed into place atomically. Shards, their sidecars and
dataset.json are beside it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

from imagenet_spec.names import camel_case
from imagenet_workloads import dataset as datasets
from imagenet_workloads import files
from imagenet_workloads.dataset import RECORD_IO, WriterVersion
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.records import format_named, image_list
from imagenet_workloads.records.format import INDEX_SUFFIX, Box, Format

VERSION = 1
# Incremented with every change of this package that changes a byte of the records.
WRITER_VERSION = "3"

_KEY_LENGTH = 32
# Lines of a shard's list that are parsed together: one by one takes three times as long.
_LINES = 64
_BLOCK = 1 << 20
# As json.dumps does with text.
_quoted = json.encoder.encode_basestring_ascii
TRAIN, VALIDATION = "train", "validation"

_FOLDER, _FILE = "plan", "plan.json"
_PREFIXES = {TRAIN: "train", VALIDATION: "val"}


@dataclass(frozen=True)
class DatasetOptions:
    """The fields of spec.dataset that change bytes."""

    shards: int  # training shards; validation shards are added in proportion
    format: str = RECORD_IO
    resize: int | None = None  # length of the shorter edge in pixels; None for no resize
    quality: int = 90  # quality of re-encoded JPEGs, 1 to 100
    min_images_per_class: int = 1  # classes with fewer are dropped
    seed: int = 0
    # Validation images drawn from each class; 0 without validation, or with a separate validation
    # source.
    validation_per_class: int = 0

    def to_document(self) -> dict[str, Any]:
        """JSON values with the names of the ImageNetJob's fields."""
        return {camel_case(name): value for name, value in asdict(self).items()}

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        return cls(
            shards=fields.integer("shards", minimum=1),
            format=fields.text("format"),
            resize=fields.integer("resize", minimum=1) if fields.has("resize") else None,
            quality=fields.integer("quality", minimum=1),
            min_images_per_class=fields.integer("minImagesPerClass"),
            seed=fields.integer("seed"),
            validation_per_class=fields.integer("validationPerClass"),
        )


def make_key(
    writer: WriterVersion,
    options: DatasetOptions,
    source: str,
    validation: tuple[str, str] | None,
    class_words: Mapping[str, str] | None = None,
    bounding_boxes: str | None = None,
) -> str:
    """The key as hexadecimal digits.

    Args:
        writer: The version and codec of the writer.
        options: The options that change bytes.
        source: The fingerprint of the source's images.
        validation: The fingerprints of the validation images and of their label file; None if they
            are drawn from the source.
        class_words: the words of the classes, if any are given.
        bounding_boxes: the fingerprint of the annotations, if any are given.
    """
    parts: dict[str, Any] = {
        "writer": [writer.version, writer.codec],
        "options": options.to_document(),
        "source": source,
        "validation": validation,
    }
    # Without words and boxes, the key stays what it was before there were any.
    if class_words:
        parts["classWords"] = dict(class_words)
    if bounding_boxes is not None:
        parts["boundingBoxes"] = bounding_boxes
    text = json.dumps(parts, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:_KEY_LENGTH]


class PlannedImage(NamedTuple):
    """One line of a shard's list: an image and its location."""

    key: int  # number in the split, in shuffled order
    label: int  # position of its class
    offset: int  # offset in its source's file
    size: int
    name: str
    boxes: tuple[Box, ...] = ()  # boxes of its objects, before its EXIF orientation is applied


@dataclass(frozen=True)
class PlannedShard:
    """One planned shard."""

    split: str
    name: str  # name of its files without suffix, such as train-00000-of-00008
    images: int  # planned images, damaged ones included
    format: Format

    @property
    def record(self) -> str:
        return f"{self.name}.{self.format.suffix}"

    @property
    def index(self) -> str:
        return f"{self.name}.{INDEX_SUFFIX}"

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files of pack, records first."""
        return self.record, self.index, self.image_list

    @property
    def image_list(self) -> str:
        """The name of the list of its images, which older versions did not write."""
        return image_list.name_of(self.record)

    @property
    def sidecar(self) -> str:
        """The name of its sidecar, which exists once it is complete."""
        return f"{self.name}.json"


@dataclass(frozen=True)
class Plan:
    """The plan of a dataset."""

    key: str
    writer: WriterVersion
    options: DatasetOptions
    classes: tuple[str, ...]  # sorted classes; a label is a position
    dropped_classes: Mapping[str, int]  # dropped classes, with their numbers of images
    # Source of each split: `{"kind": …}`, with the options of a synthetic one and the version of a
    # remote one.
    sources: Mapping[str, Mapping[str, Any]]
    shards: tuple[PlannedShard, ...]
    # Files that are no images, by suffix.
    passed_over: Mapping[str, int] = field(default_factory=dict)
    # Validation images left out, by the class that the training images lack.
    unknown_labels: Mapping[str, int] = field(default_factory=dict)
    # What people call a class, of some classes.
    class_words: Mapping[str, str] = field(default_factory=dict)
    # The counts of the boxes; empty without boxes.
    bounding_boxes: Mapping[str, int] = field(default_factory=dict)
    # How the source was read; empty for a fixed layout.
    decision: Mapping[str, Any] = field(default_factory=dict)

    def images(self, split: str | None = None) -> int:
        return sum(shard.images for shard in self.shards if split in (None, shard.split))

    def to_json(self) -> str:
        """The text of plan.json; equal plans have equal bytes."""
        document = {
            "version": VERSION,
            "key": self.key,
            "writer": {"version": self.writer.version, "codec": self.writer.codec},
            "options": self.options.to_document(),
            "classes": list(self.classes),
            **datasets.class_words_document(self.class_words),
            "droppedClasses": dict(self.dropped_classes),
            **datasets.left_out_document(self.passed_over, self.unknown_labels),
            **({"boundingBoxes": dict(self.bounding_boxes)} if self.bounding_boxes else {}),
            **({"decision": dict(self.decision)} if self.decision else {}),
            "sources": {split: dict(source) for split, source in self.sources.items()},
            "shards": [
                {"split": shard.split, "name": shard.name, "images": shard.images}
                for shard in self.shards
            ],
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        if fields.integer("version") != VERSION:
            raise fields.wrong("version", f"is not {VERSION}, which this program reads")
        writer, sources = fields.object("writer"), fields.object("sources")
        options = DatasetOptions.from_fields(fields.object("options"))
        format = format_named(options.format)
        return cls(
            key=fields.text("key"),
            writer=WriterVersion(version=writer.text("version"), codec=writer.text("codec")),
            options=options,
            classes=fields.texts("classes"),
            dropped_classes=fields.counts("droppedClasses"),
            passed_over=fields.counts("passedOver") if fields.has("passedOver") else {},
            unknown_labels=fields.counts("unknownLabels") if fields.has("unknownLabels") else {},
            class_words=datasets.read_class_words(fields),
            bounding_boxes=fields.counts("boundingBoxes") if fields.has("boundingBoxes") else {},
            decision=fields.object("decision").values if fields.has("decision") else {},
            sources={split: sources.object(split).values for split in sources.values},
            shards=tuple(
                PlannedShard(
                    shard.text("split"), shard.file_name("name"), shard.integer("images"), format
                )
                for shard in fields.objects("shards")
            ),
        )


def folder_of(data: Path, key: str) -> Path:
    """The folder of a dataset on the dataset volume."""
    return data / "datasets" / key


def name_shards(split: str, sizes: Iterable[int], format: Format) -> tuple[PlannedShard, ...]:
    """The shards of a split, by their numbers of images."""
    images = tuple(sizes)
    return tuple(
        PlannedShard(split, f"{_PREFIXES[split]}-{number:05}-of-{len(images):05}", size, format)
        for number, size in enumerate(images)
    )


def exists(dataset: Path) -> bool:
    """Whether a dataset has a plan, be it damaged or not."""
    return (dataset / _FOLDER).is_dir()


def is_whole(dataset: Path) -> bool:
    """Whether a dataset has its plan, and no file of it was cut off."""
    folder = dataset / _FOLDER
    try:
        plan = Plan.from_fields(Fields.read(folder / _FILE))
        return all(_lines(folder / _images_file(shard)) == shard.images for shard in plan.shards)
    except (OSError, InputError):
        return False


def _lines(path: Path) -> int | None:
    """The lines of a file; None if the last one has no end."""
    count, last = 0, b"\n"
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            count += block.count(b"\n")
            last = block[-1:]
    return count if last == b"\n" else None


def remove(dataset: Path) -> None:
    """Remove a damaged plan, if there is one."""
    files.remove_folder(dataset / _FOLDER, ignore_errors=True)


def write(dataset: Path, plan: Plan, images: Mapping[str, Iterable[PlannedImage]]) -> None:
    """Write a plan with the images of each shard, or keep the equal plan of another run."""
    with files.new_folder(dataset / _FOLDER) as folder:
        for shard in plan.shards:
            content = (_line(image) for image in images[shard.name])
            files.write_chunks(folder / _images_file(shard), content)
        files.write_file(folder / _FILE, plan.to_json().encode())


def update_sources(dataset: Path, plan: Plan) -> None:
    """Write plan.json again if its sources differ from a plan with the same key."""
    path = dataset / _FOLDER / _FILE
    if Plan.from_fields(Fields.read(path)).sources != plan.sources:
        files.write_file(path, plan.to_json().encode())


def read(data: Path, key: str) -> Plan:
    """Read the plan of a dataset.

    Raises:
        InputError: There is none, or it is invalid.
    """
    path = folder_of(data, key) / _FOLDER / _FILE
    if not files.exists(path):
        files.require_no_file(data)
        raise InputError(
            f"{data}: has no plan for a dataset {key}; run imagenet-index first, and give its key"
        )
    return Plan.from_fields(Fields.read(path))


def read_images(dataset: Path, shard: PlannedShard) -> Iterator[PlannedImage]:
    """Yield the images of one shard in their order.

    Raises:
        InputError: The shard's list cannot be read.
    """
    path = dataset / _FOLDER / _images_file(shard)
    try:
        with path.open("rb") as file:
            while lines := list(islice(file, _LINES)):
                for row in json.loads(b"[%s]" % b",".join(lines)):
                    image = PlannedImage(*row)
                    if image.boxes:
                        image = image._replace(boxes=tuple(Box(*edges) for edges in image.boxes))
                    yield image
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: the plan is damaged: {error}; remove {dataset}") from error


def _line(image: PlannedImage) -> bytes:
    if image.boxes:
        return json.dumps(image).encode() + b"\n"
    # As JSON of all but the boxes; a general encoder takes three times as long.
    key, label, offset, size, name, _ = image
    return f"[{key}, {label}, {offset}, {size}, {_quoted(name)}]\n".encode()


def _images_file(shard: PlannedShard) -> str:
    return f"{shard.name}.jsonl"

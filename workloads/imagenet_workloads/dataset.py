"""dataset.json: what a sealed dataset holds, written last by seal and read by training.

Its presence means that every shard beside it is complete and checked. A label is the position of
a class's name in `classes`. This module only knows the file's shape; `prepare` makes it. What is no
sealed dataset, or has a field that is missing or wrong, raises an InputError.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from imagenet_spec.names import FORMATS
from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.findings import Findings, read_findings

FILE_NAME = "dataset.json"
VERSION = 1

RECORD_IO, TF_RECORD = FORMATS
RECORD_SUFFIXES = (".rec", ".tfrecord")


@dataclass(frozen=True)
class Shard:
    """One file of records, beside dataset.json.

    Attributes:
        index: name of its .idx file, `key<TAB>byte offset` a line; None for TFRecord that an older
            version or another program wrote.
        bytes: length of the file of records.
        sha256: hex, of the file of records.
        image_list: name of the file with the origin of each record; None if an older version or
            another program wrote none.
    """

    record: str
    index: str | None
    records: int
    bytes: int
    sha256: str
    image_list: str | None = None

    @property
    def beside(self) -> tuple[str, ...]:
        return tuple(name for name in (self.index, self.image_list) if name is not None)


@dataclass(frozen=True)
class Split:
    """The training or the validation images; `per_class` is by label, or None if not recorded."""

    images: int
    shards: tuple[Shard, ...]
    per_class: tuple[int, ...] | None = None


@dataclass(frozen=True)
class WriterVersion:
    """What wrote the bytes: another version or codec may give other bytes for the same input."""

    version: str
    codec: str


@dataclass(frozen=True)
class Packing:
    """How a preparation converted images for their records.

    Attributes:
        resize: the shorter edge in pixels; None is as in the source.
        quality: of the JPEGs that it encoded, 1 to 100.
    """

    resize: int | None
    quality: int
    codec: str

    def document(self) -> dict[str, Any]:
        return {"resize": self.resize, "quality": self.quality, "codec": self.codec}

    @classmethod
    def read(cls, fields: Fields) -> Self:
        resize = fields.integer("resize", minimum=1) if fields.has("resize") else None
        return cls(resize, fields.integer("quality", minimum=1), fields.text("codec"))


@dataclass(frozen=True)
class Skipped:
    """Damaged images that were left out, and the file beside dataset.json that lists them."""

    count: int = 0
    report: str | None = None


@dataclass(frozen=True)
class BoundingBoxes:
    """The boxes of the images' objects, in a file beside dataset.json.

    `counts` are of images with boxes, of boxes, and of what was clamped or left out.
    """

    counts: Mapping[str, int]
    file: str
    sha256: str

    def document(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "file": self.file, "sha256": self.sha256}

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(fields.counts("counts"), fields.file_name("file"), fields.text("sha256"))


@dataclass(frozen=True)
class Dataset:
    """A sealed dataset.

    Attributes:
        key: hex name of its content: source, options that change bytes, writer.
        options: the preprocessing options, as given.
        classes: class names, sorted; a label is a position in it.
        mean: of the training images, red, green and blue, in 0..255; `std` likewise.
        dropped_classes: classes left out for having too few images, with their counts.
        passed_over: files of the source that are no images, by suffix.
        decision: how the source was read; empty for a fixed layout, or in older datasets.
        unknown_labels: validation images left out, by the class that the training images lack.
        class_words: what people call a class, such as `tench` for n01440764; of some classes.
        findings: what the check of its images has found; None in older datasets.
        packed_before: the preparations of the dataset that this one was made from, oldest first;
            None if that one does not know them.
    """

    key: str
    writer: WriterVersion
    options: Mapping[str, Any]
    classes: tuple[str, ...]
    train: Split
    validation: Split
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    dropped_classes: Mapping[str, int] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)
    passed_over: Mapping[str, int] = field(default_factory=dict)
    decision: Mapping[str, Any] = field(default_factory=dict)
    unknown_labels: Mapping[str, int] = field(default_factory=dict)
    class_words: Mapping[str, str] = field(default_factory=dict)
    bounding_boxes: BoundingBoxes | None = None
    format: str = RECORD_IO
    packed_before: tuple[Packing, ...] | None = ()
    findings: Findings | None = None

    @property
    def packings(self) -> tuple[Packing, ...] | None:
        """The preparations of its images, oldest first; None if they are unknown."""
        # Another program's dataset.json may lack these options.
        if self.packed_before is None or not {"resize", "quality"} <= self.options.keys():
            return None
        own = Fields({**self.options, "codec": self.writer.codec}, "options")
        return (*self.packed_before, Packing.read(own))

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Those of both splits, training shards first."""
        return *self.train.shards, *self.validation.shards

    @property
    def other_files(self) -> tuple[str, ...]:
        """The files beside dataset.json that are of no shard."""
        names = (
            self.skipped.report,
            None if self.bounding_boxes is None else self.bounding_boxes.file,
            None if self.findings is None else self.findings.report,
        )
        return tuple(name for name in names if name is not None)

    def without_additions(self) -> Self:
        """The same images, without what only newer versions write beside them.

        These are an index of TFRecord, the lists of images, and the findings in them.
        """
        return replace(
            self, findings=None, train=_bare(self.train), validation=_bare(self.validation)
        )

    def to_json(self) -> str:
        """The text of dataset.json; equal datasets give equal bytes."""
        document = {
            "version": VERSION,
            "key": self.key,
            "format": self.format,
            "writer": {"version": self.writer.version, "codec": self.writer.codec},
            "options": dict(sorted(self.options.items())),
            "classes": list(self.classes),
            **class_words_document(self.class_words),
            "droppedClasses": dict(sorted(self.dropped_classes.items())),
            **left_out_document(self.passed_over, self.unknown_labels),
            **({"decision": dict(self.decision)} if self.decision else {}),
            **({"boundingBoxes": boxes.document()} if (boxes := self.bounding_boxes) else {}),
            **packed_before_document(self.packed_before),
            **({"checks": self.findings.to_document()} if self.findings else {}),
            "splits": {
                "train": _split_document(self.train),
                "validation": _split_document(self.validation),
            },
            "mean": list(self.mean),
            "std": list(self.std),
            "skipped": {"count": self.skipped.count, "report": self.skipped.report},
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = FILE_NAME) -> Self:
        """Reads the text of a dataset.json; `where` names it in messages."""
        return cls._from_fields(Fields.parse(text, where))

    @classmethod
    def _from_fields(cls, fields: Fields) -> Self:
        version = fields.integer("version")
        if version != VERSION:
            raise fields.wrong(
                "version", f"is {version}, and this program reads {VERSION}; prepare it again"
            )
        format = fields.text("format")
        if format not in FORMATS:
            raise fields.wrong(
                "format", f"is {format!r}, and this program reads {' and '.join(FORMATS)}"
            )
        classes = fields.texts("classes")
        if len(set(classes)) != len(classes):
            raise fields.wrong("classes", "names a class twice")
        std = fields.three_numbers("std")
        if min(std) < 0:
            raise fields.wrong("std", f"must be at least 0 for each colour, not {min(std):g}")
        writer = fields.object("writer")
        splits = fields.object("splits")
        skipped = fields.object("skipped")
        return cls(
            key=fields.text("key"),
            format=format,
            writer=WriterVersion(version=writer.text("version"), codec=writer.text("codec")),
            options=fields.object("options").values,
            classes=classes,
            dropped_classes=fields.counts("droppedClasses"),
            passed_over=fields.counts("passedOver") if fields.has("passedOver") else {},
            decision=fields.object("decision").values if fields.has("decision") else {},
            unknown_labels=fields.counts("unknownLabels") if fields.has("unknownLabels") else {},
            class_words=read_class_words(fields),
            bounding_boxes=BoundingBoxes.read(fields.object("boundingBoxes"))
            if fields.has("boundingBoxes")
            else None,
            packed_before=read_packed_before(fields),
            findings=read_findings(fields),
            train=_read_split(splits.object("train"), len(classes), format),
            validation=_read_split(splits.object("validation"), len(classes), format),
            mean=fields.three_numbers("mean"),
            std=std,
            skipped=Skipped(
                count=skipped.integer("count"),
                report=skipped.file_name("report") if skipped.has("report") else None,
            ),
        )


def read_dataset(folder: Path) -> Dataset:
    """Reads the dataset.json of a dataset's folder."""
    path = folder / FILE_NAME
    if not files.exists(path):
        raise InputError(
            f"{folder} is not a prepared dataset: it holds no {FILE_NAME}, which is written last; "
            "finish preparing it, or give the folder of one that is"
        )
    return Dataset._from_fields(Fields.read(path))


def require_whole(dataset: Dataset, folder: Path) -> None:
    """Compare the length of every shard with dataset.json, without reading it.

    InputError if a shard is missing or has another length.
    """
    for shard in (*dataset.train.shards, *dataset.validation.shards):
        path = folder / shard.record
        try:
            length = path.stat().st_size
        except OSError as error:
            raise damaged(path, f"cannot be read: {error.strerror}") from error
        if length != shard.bytes:
            raise damaged(path, f"has {length} bytes, not {shard.bytes}")


def files_named(records: str) -> list[Path]:
    """Return the files that `a.rec;b.rec` names; a folder stands for its record files, by name.

    InputError if a folder has none, is a prepared dataset, or cannot be read.
    """
    found: list[Path] = []
    for path in (Path(name) for name in records.split(";") if name):
        if not path.is_dir():
            found.append(path)
            continue
        if (path / FILE_NAME).exists():
            raise InputError(f"{path}: is a prepared dataset; write --dataset {path}")
        try:
            shards = sorted(one for one in path.iterdir() if one.suffix in RECORD_SUFFIXES)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        if not shards:
            raise InputError(f"{path}: holds no {' or '.join(RECORD_SUFFIXES)} files")
        found += shards
    return found


def damaged(path: Path, what: str) -> InputError:
    """The error for a shard that is not as it was sealed; the caller raises it."""
    return InputError(
        f"{path}: {what}: the shard is damaged; run imagenet-seal --verify on the dataset, then "
        "prepare it again: that makes the damaged shards alone"
    )


def left_out_document(
    passed_over: Mapping[str, int], unknown_labels: Mapping[str, int]
) -> dict[str, Any]:
    """What a source held beside its images, as JSON values; empty if nothing."""
    counts = {"passedOver": dict(passed_over), "unknownLabels": dict(unknown_labels)}
    return {name: count for name, count in counts.items() if count}


def class_words_document(words: Mapping[str, str]) -> dict[str, Any]:
    """The words of classes as JSON values; empty if there are none."""
    return {"classWords": dict(words)} if words else {}


def read_class_words(fields: Fields) -> dict[str, str]:
    """Reads what `class_words_document` made."""
    if not fields.has("classWords"):
        return {}
    words = fields.object("classWords")
    return {name: words.text(name) for name in words.values}


def packed_before_document(packings: Sequence[Packing] | None) -> dict[str, Any]:
    """Earlier preparations as JSON values; empty if there are none."""
    if packings is None:
        return {"packedBefore": "unknown"}
    return {"packedBefore": [one.document() for one in packings]} if packings else {}


def read_packed_before(fields: Fields) -> tuple[Packing, ...] | None:
    """Reads what `packed_before_document` made."""
    if not fields.has("packedBefore"):
        return ()
    if fields.values["packedBefore"] == "unknown":
        return None
    return tuple(Packing.read(one) for one in fields.objects("packedBefore"))


def _bare(split: Split) -> Split:
    bare = (replace(shard, index=None, image_list=None) for shard in split.shards)
    return replace(split, shards=tuple(bare))


def _split_document(split: Split) -> dict[str, Any]:
    document: dict[str, Any] = {"images": split.images}
    if split.per_class is not None:
        document["perClass"] = list(split.per_class)
    document["shards"] = [
        {
            "record": shard.record,
            **({} if shard.index is None else {"index": shard.index}),
            **({} if shard.image_list is None else {"imageList": shard.image_list}),
            "records": shard.records,
            "bytes": shard.bytes,
            "sha256": shard.sha256,
        }
        for shard in split.shards
    ]
    return document


def _read_split(fields: Fields, classes: int, format: str) -> Split:
    shards = tuple(
        Shard(
            record=shard.file_name("record"),
            index=shard.file_name("index") if format == RECORD_IO or shard.has("index") else None,
            image_list=shard.file_name("imageList") if shard.has("imageList") else None,
            records=shard.integer("records"),
            bytes=shard.integer("bytes"),
            sha256=shard.text("sha256"),
        )
        for shard in fields.objects("shards")
    )
    images = fields.integer("images")
    records = sum(shard.records for shard in shards)
    if images != records:
        raise fields.wrong("images", f"is {images}, but its shards hold {records} records")
    per_class = fields.integers("perClass") if fields.has("perClass") else None
    if per_class is not None and (len(per_class) != classes or sum(per_class) != images):
        raise fields.wrong("perClass", f"must hold one count a class that add up to {images}")
    return Split(images=images, shards=shards, per_class=per_class)

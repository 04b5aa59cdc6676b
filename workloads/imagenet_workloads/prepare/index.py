"""`imagenet-index`: lists a source, and writes a plan unless the dataset is already sealed.

The steps: check that the volume is writable, list the source, choose the classes, split and
shuffle, choose the codec, compute the key, check whether that key is sealed, check the free space,
and write the plan. Only the last step is visible to other programs.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imagenet_workloads import dataset as datasets
from imagenet_workloads import files
from imagenet_workloads.clients import TRAFFIC
from imagenet_workloads.errors import InputError, of_field
from imagenet_workloads.prepare import codecs, shards, split, transcode
from imagenet_workloads.prepare import plan as plans
from imagenet_workloads.prepare.bounding_boxes import BoundingBoxes, Boxes
from imagenet_workloads.prepare.classes import ExpectedClasses, listed, merged_words, read_words
from imagenet_workloads.prepare.codecs import Choice, choose_faster
from imagenet_workloads.prepare.codecs.codec import Jpeg, Recipe
from imagenet_workloads.prepare.layouts import labels
from imagenet_workloads.prepare.plan import (
    TRAIN,
    VALIDATION,
    WRITER_VERSION,
    DatasetOptions,
    Plan,
    make_key,
)
from imagenet_workloads.prepare.scan import Scan, kept_listing, scan
from imagenet_workloads.prepare.source import Annotations, ReadingEstimate, Source, Validation
from imagenet_workloads.prepare.sources.prepared import KeptBoxes, SealedSplit
from imagenet_workloads.prepare.split import (
    Classes,
    Part,
    SourceSample,
    count_boxes,
    estimate_bytes,
    planned_images,
    reading,
)
from imagenet_workloads.prepare.stores.blob import Blob, DamagedImageError, LabelFile, readable
from imagenet_workloads.records import format_named
from imagenet_workloads.telemetry.preparation import PreparationRecorder

_log = logging.getLogger(__name__)

AUTO = "auto"
"""The option of the codec that is chosen by the source."""


@dataclass(frozen=True)
class IndexRequest:
    """The options of an index run."""

    source: Source
    validation: Validation | None  # source of the validation images, if it is another one
    data: Path
    options: DatasetOptions
    codec: str  # `auto`, `opencv` or `planes`
    max_skipped_fraction: float  # largest fraction of damaged images, 0 to 1
    expected: ExpectedClasses = field(default_factory=ExpectedClasses)
    # A file with the words of the classes; None without.
    class_words: Path | LabelFile | None = None
    # Words of single classes, in place of the file's.
    words_of_classes: Mapping[str, str] = field(default_factory=dict)
    # Open the archives of annotations; empty without boxes.
    bounding_boxes: Sequence[Callable[[], Blob]] = ()
    # Whether validation images beside the training images validate.
    takes_own_validation: bool = False
    drawn_by_default: int = 0  # validation images of each class, if the source has none
    reads_annotations: bool = False  # whether those beside the images are wanted
    own_annotations: Annotations | None = None  # those, once the source is listed


@dataclass(frozen=True)
class IndexResult:
    """The result of index, which the operator reads."""

    key: str
    classes: int
    train: int
    validation: int
    shards: int  # of both splits, which are pack's completions
    dropped_classes: int
    sealed: bool  # whether no other step is needed
    # Files that are no images, by suffix.
    passed_over: Mapping[str, int] = field(default_factory=dict)
    unknown_labels: int = 0  # validation images of classes that the training images lack
    skipped: int = 0  # damaged images of a sealed dataset
    bounding_boxes: Mapping[str, int] = field(default_factory=dict)
    # Of reading the images in place in one pod; None if pack reads none so.
    packing: ReadingEstimate | None = None
    # How the source was read: `said`, `warnings`, and `leftOut` by rule; and the `codec`, if it was
    # chosen, with the reason.
    decision: Mapping[str, Any] = field(default_factory=dict)
    findings: Sequence[str] = ()  # of a sealed dataset

    def to_document(self) -> dict[str, Any]:
        """JSON values; from `passedOver` on only those that say something."""
        document: dict[str, Any] = {
            "key": self.key,
            "classes": self.classes,
            "images": {"train": self.train, "validation": self.validation},
            "shards": self.shards,
            "droppedClasses": self.dropped_classes,
            "sealed": self.sealed,
        }
        optional = {
            "passedOver": dict(self.passed_over),
            "unknownLabels": self.unknown_labels,
            "skippedImages": self.skipped,
            "boundingBoxes": dict(self.bounding_boxes),
            "packing": self.packing and self.packing.to_document(),
            "decision": dict(self.decision),
            "findings": list(self.findings),
        }
        return document | {name: value for name, value in optional.items() if value}


def run(request: IndexRequest, recorder: PreparationRecorder) -> IndexResult:
    """Index a source.

    Raises:
        InputError: The source or an option is invalid, or it takes too many requests.
        StorageError: The volume cannot be written, or is too small.
    """
    if request.codec != AUTO:
        codecs.choose(request.codec)
    files.make_folder(request.data / "datasets")
    request.source.scratch = request.data
    before = TRAFFIC.requests
    with (
        files.unnamed_file(request.data) as rows,
        files.unnamed_file(request.data) as own_rows,
        kept_listing(request.source, request.data / "datasets"),
    ):
        found = scan(request.source, rows, recorder.listed)
        _log_notes(found)
        request = _settled(request)
        decision = _decision(request.source, found)
        boxes = _boxes(request)
        classes = _choose_classes(found, request)
        parts = _divide(request, found, classes, own_rows, recorder)
        samples = {name: SourceSample(part) for name, part in parts.items()}
        plan = _plan(request, found, classes, parts, samples[TRAIN], boxes, decision)
        request.source.require_classes()
        dataset = plans.folder_of(request.data, plan.key)
        sealed = packing = None
        if is_sealed(dataset):
            sealed = checked_sealed(dataset, plan, request.max_skipped_fraction)
        else:
            packing = reading(plan, parts, dataset, TRAFFIC.requests - before)
            files.make_folder(dataset)
            files.sweep(dataset, files.ABANDONED_SECONDS)
            recipe = Recipe(plan.options.resize, plan.options.quality)
            codec, format = codecs.choose(plan.writer.codec), format_named(plan.options.format)
            needed = sum(estimate_bytes(one, recipe, codec, format) for one in samples.values())
            needed -= shards.bytes_present(dataset, plan)
            files.require_space(dataset, needed, "the dataset")
            shards.write_limit(dataset, request.max_skipped_fraction)
        if plans.is_whole(dataset):
            # The same images may be in another version of the archive now.
            plans.update_sources(dataset, plan)
        else:
            plans.remove(dataset)
            plans.write(dataset, plan, planned_images(plan, parts, boxes))
    _log.info("the dataset is %s%s", dataset, ", sealed already" if sealed else "")
    if packing is not None:
        _log.info("packing in one pod takes about %s", packing)
    return IndexResult(
        key=plan.key,
        classes=len(plan.classes),
        train=plan.images(TRAIN) if sealed is None else sealed.train.images,
        validation=plan.images(VALIDATION) if sealed is None else sealed.validation.images,
        shards=len(plan.shards),
        dropped_classes=len(plan.dropped_classes),
        sealed=sealed is not None,
        passed_over=plan.passed_over,
        unknown_labels=sum(plan.unknown_labels.values()),
        skipped=0 if sealed is None else sealed.skipped.count,
        bounding_boxes=plan.bounding_boxes,
        packing=packing,
        decision=plan.decision,
        findings=sealed.findings.warnings if sealed is not None and sealed.findings else (),
    )


def _settled(request: IndexRequest) -> IndexRequest:
    """Add to the request what the listing has shown beside the training images."""
    source, options = request.source, request.options
    validation = request.validation
    if request.takes_own_validation:
        validation = source.own_validation() if source.own_validation else None
        if validation is None and source.sealed is None:
            options = replace(options, validation_per_class=request.drawn_by_default)
    return replace(
        request,
        validation=validation,
        options=options,
        class_words=request.class_words or source.own_words,
        own_annotations=own_annotations(source) if request.reads_annotations else None,
    )


def own_annotations(source: Source) -> Annotations:
    """The annotations beside the images of a source.

    Raises:
        InputError: It cannot have any.
    """
    if source.own_annotations is None:
        raise InputError(
            f"{source.where}: has no annotations of its own, as Annotations/CLS-LOC beside Data in "
            "Kaggle's ILSVRC; remove --read-annotations (readAnnotations), or name archives of "
            "annotations by --bounding-boxes (boundingBoxes)"
        )
    return source.own_annotations


def _decision(source: Source, found: Scan) -> dict[str, Any]:
    """Log how the source was read, and return it; empty for a fixed layout."""
    left_out = {
        name: {"count": count, "example": _cut(example, 100)}
        for name, (count, example) in found.notes.left_out.items()
    }
    if source.said:
        _log.info("%s", source.said)
    for warning in source.warnings:
        _log.warning("%s", warning)
    for name, one in left_out.items():
        _log.info("left out (%s): %s, such as %s", name, one["count"], one["example"])
    # The termination message of a pod has 4,096 bytes.
    document = {
        "said": _cut(source.said, 500),
        "warnings": [_cut(warning, 300) for warning in source.warnings[:2]],
        "leftOut": dict(list(left_out.items())[:8]),
    }
    return {name: value for name, value in document.items() if value}


def _cut(text: str, most: int) -> str:
    shown = readable(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _boxes(request: IndexRequest) -> Boxes | None:
    """The boxes of annotations, or of the sealed dataset that the source is a part of."""
    own = request.own_annotations
    if request.bounding_boxes or own is not None:
        return BoundingBoxes(request.bounding_boxes, request.data, own)
    validation = None if request.validation is None else request.validation.source
    splits = [one for one in (request.source, validation) if isinstance(one, SealedSplit)]
    kept = None if request.source.sealed is None else request.source.sealed.bounding_boxes
    return None if kept is None else KeptBoxes(Path(request.source.where), kept, splits)


def _choose_classes(found: Scan, request: IndexRequest) -> Classes:
    options = request.options
    counts = np.bincount(found.classes(), minlength=len(found.class_names)).tolist()
    classes = split.choose_classes(
        found.class_names, counts, found.notes.empty, options.min_images_per_class
    )
    _log.info("%d images of %d classes", len(found), len(found.class_names))
    if classes.dropped:
        dropped = [f"{name} ({count})" for name, count in classes.dropped.items()]
        fewest = options.min_images_per_class
        _log.info("dropped for fewer than %d images: %s", fewest, listed(dropped))
    images = dict(zip(found.class_names, counts, strict=True))
    request.expected.check({name: images[name] for name in classes.names}, classes.dropped)
    return classes


def _divide(
    request: IndexRequest, found: Scan, classes: Classes, rows: Any, recorder: PreparationRecorder
) -> dict[str, Part]:
    options = request.options
    class_of = found.classes()
    train, drawn = split.draw(
        class_of, found.class_names, classes, options.validation_per_class, options.seed
    )
    parts = {TRAIN: Part(request.source, found, train, class_of, classes.labels)}
    if request.validation is not None:
        parts[VALIDATION] = _own_validation(
            request, request.validation, found, classes, rows, recorder
        )
    elif len(drawn):
        parts[VALIDATION] = Part(request.source, found, drawn, class_of, classes.labels)
    for name, part in parts.items():
        # Those of a sealed dataset are shuffled already.
        if part.source.sealed is None:
            split.shuffle(part.numbers, options.seed, name)
    return parts


def _own_validation(
    request: IndexRequest,
    validation: Validation,
    found: Scan,
    classes: Classes,
    rows: Any,
    recorder: PreparationRecorder,
) -> Part:
    # The training images' source has said how many are to be expected; these are few beside them.
    listed = scan(validation.source, rows, lambda images, _: recorder.listed(images))
    _log_notes(listed)
    unknown = Counter[str]()
    class_of = _validation_classes(validation, listed, found.class_names, unknown)
    # One more label at the end, where the number -1 of an unknown class leads.
    label_of = np.append(classes.labels, split.DROPPED)
    kept = np.flatnonzero(label_of[class_of] != split.DROPPED).astype(np.uint32)
    where, remedy = str(validation.labels), "correct the labels"
    if validation.labels is None:
        where, remedy = validation.source.where, "rename or remove these folders"
    if not len(kept):
        raise InputError(f"{where}: none of its classes is a class of the training images")
    # A class without an image was dropped like one with too few.
    unknown = Counter({name: n for name, n in unknown.items() if name not in classes.dropped})
    allowed = shards.allowed_images(request.max_skipped_fraction, len(listed))
    shards.check_unknown_labels(where, unknown, found.class_names, len(listed), allowed, remedy)
    rare = len(listed) - len(kept) - unknown.total()
    if rare:
        _log.info("%d validation images are of classes with too few images, and left out", rare)
    return Part(validation.source, listed, kept, class_of, label_of, unknown)


def _validation_classes(
    validation: Validation, listed: Scan, class_names: Sequence[str], unknown: Counter[str]
) -> npt.NDArray[Any]:
    """The class of each validation image, as a position in the training classes, or UNKNOWN."""
    if validation.labels is not None:
        names = lambda: (name for _, _, name in listed.rows())  # noqa: E731
        return labels.read(validation.labels, names, class_names, unknown)
    position = {name: number for number, name in enumerate(class_names)}
    numbers = [position.get(name, labels.UNKNOWN) for name in listed.class_names]
    classes = listed.classes()
    for name, number, count in zip(
        listed.class_names, numbers, np.bincount(classes).tolist(), strict=True
    ):
        if number == labels.UNKNOWN:
            unknown[name] = count
    positions: npt.NDArray[Any] = np.array(numbers, np.int32)[classes]
    return positions


def _plan(
    request: IndexRequest,
    found: Scan,
    classes: Classes,
    parts: dict[str, Part],
    sample: SourceSample,
    boxes: Boxes | None,
    decision: Mapping[str, Any],
) -> Plan:
    validation = None
    if request.validation is not None:
        file = request.validation.labels
        of_labels = "" if file is None else labels.fingerprint(file)
        validation = _fingerprint(parts[VALIDATION]), of_labels
    images = {name: len(part.numbers) for name, part in parts.items()}
    # Drawn validation images are of the training images' scan.
    scans = {id(part.scan): part.scan for part in parts.values()}.values()
    format = format_named(request.options.format)
    is_own = request.class_words is request.source.own_words
    with nullcontext() if is_own else of_field("source.classWords"):
        words = read_words(request.class_words, classes.names, may_lack_all=is_own)
    words = merged_words(words, request.words_of_classes, classes.names)
    boxes_hash = None if boxes is None else boxes.fingerprint()
    counts = split.shard_counts(images[TRAIN], images.get(VALIDATION, 0), request.options.shards)
    key_of = partial(
        make_key,
        options=request.options,
        source=_fingerprint(parts[TRAIN]),
        validation=validation,
        class_words=words,
        bounding_boxes=boxes_hash,
    )
    choice = _choose_codec(request, sample, lambda codec: key_of(_writer(codec)))
    if choice.said:
        _log.info("the codec is %s", choice.said)
        decision = {**decision, "codec": _cut(choice.said, 300)}
    return Plan(
        key=key_of(_writer(choice.codec)),
        writer=_writer(choice.codec),
        options=request.options,
        classes=classes.names,
        dropped_classes=classes.dropped,
        passed_over=dict(sum((one.notes.suffixes for one in scans), Counter[str]()).most_common()),
        unknown_labels=parts[VALIDATION].unknown if VALIDATION in parts else {},
        class_words=words,
        bounding_boxes={} if boxes is None else count_boxes(boxes, classes.names, parts),
        decision=decision,
        sources={name: part.source.to_document() for name, part in parts.items()},
        shards=tuple(
            shard
            for name, count in zip((TRAIN, VALIDATION), counts, strict=True)
            for shard in plans.name_shards(
                name,
                (end - start for start, end in split.bounds(images.get(name, 0), count)),
                format,
            )
        ),
    )


def _writer(codec: str) -> datasets.WriterVersion:
    return datasets.WriterVersion(version=WRITER_VERSION, codec=codec)


def _choose_codec(
    request: IndexRequest, sample: SourceSample, key_of: Callable[[str], str]
) -> Choice:
    """Choose the codec: the named one, the one of an existing dataset, or the faster one."""
    if request.codec != AUTO:
        return Choice(request.codec, "")
    # What exists is used as it is, or finished: another release or machine may have chosen
    # differently.
    folders = {name: plans.folder_of(request.data, key_of(name)) for name in codecs.NAMES}
    sealed = [name for name, folder in folders.items() if is_sealed(folder)]
    begun = [name for name, folder in folders.items() if plans.exists(folder)]
    has_planes = codecs.has_planes()
    if len(sealed) == 1:
        said = datasets.read_dataset(folders[sealed[0]]).decision.get("codec", "")
        if not said and request.options.resize is not None:
            said = f"{sealed[0]}, with which the dataset is sealed already"
        return Choice(sealed[0], said)
    if request.options.resize is None:
        # JPEGs are copied, and the codecs convert the others alike.
        choice = Choice(codecs.OPENCV, "")
    else:
        headers: list[Jpeg | None] = []
        for _, content in sample.read():
            is_jpeg = content is not None and transcode.is_jpeg(content)
            try:
                headers.append(transcode.header(content) if content and is_jpeg else None)
            except DamagedImageError:
                headers.append(None)
        choice = choose_faster(headers, request.options.resize, has_planes=has_planes)
    if sealed or len(begun) != 1 or begun[0] == choice.codec:
        return choice
    if begun[0] == codecs.PLANES and not has_planes:
        return choice
    return Choice(begun[0], f"{begun[0]}, with which the preparation of the dataset has begun")


def _fingerprint(part: Part) -> str:
    """What identifies the images of a source: a sealed dataset has its key."""
    return part.scan.fingerprint() if part.source.sealed is None else part.source.sealed.key


def _log_notes(found: Scan) -> None:
    notes = found.notes
    if notes.ignored:
        suffixes = ", ".join(f"{name} {count}" for name, count in notes.suffixes.most_common())
        _log.info("ignored %d files without the name of an image (%s)", notes.ignored, suffixes)


def is_sealed(dataset: Path) -> bool:
    """Whether a folder has a sealed dataset."""
    return files.exists(dataset / datasets.FILE_NAME)


def checked_sealed(dataset: Path, plan: Plan, max_skipped_fraction: float) -> datasets.Dataset:
    """A sealed dataset, if it is valid for this run too.

    Raises:
        InputError: Its files are missing, or more images are damaged than this run allows.
    """
    sealed = datasets.read_dataset(dataset)
    for shard in sealed.shards:
        record, index = dataset / shard.record, shard.index
        is_record_whole = record.exists() and record.stat().st_size == shard.bytes
        if not is_record_whole or (index is not None and not (dataset / index).exists()):
            lacking = dataset / index if is_record_whole and index is not None else record
            raise InputError(
                f"{lacking}: is not as {datasets.FILE_NAME} says; "
                f"remove {datasets.FILE_NAME} there, and run again to make what is missing"
            )
    allowed = shards.allowed_images(max_skipped_fraction, plan.images())
    if sealed.skipped.count > allowed:
        raise InputError(
            f"{dataset}: {sealed.skipped.count} of {plan.images()} images were damaged "
            f"(see {sealed.skipped.report}), and {allowed} are allowed; raise "
            "--max-skipped-fraction (maxSkippedFraction)"
        )
    return sealed

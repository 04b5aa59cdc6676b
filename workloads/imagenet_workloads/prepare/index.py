"""`imagenet-index`: lists a source, and writes a plan unless the dataset is already sealed.

The steps: check that the volume is writable, list the source, choose the classes, split and
shuffle, compute the key, check whether that key is sealed, check the free space, and write the
plan. Only the last step is visible to other programs.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imagenet_workloads import dataset as datasets
from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import (
    atomic_files,
    class_words,
    estimate,
    formats,
    limits,
    listing_journal,
    shards,
    split,
)
from imagenet_workloads.prepare import plan as plans
from imagenet_workloads.prepare.codecs import choose
from imagenet_workloads.prepare.codecs.codec import Codec, Recipe
from imagenet_workloads.prepare.dataset_key import WRITER_VERSION, DatasetOptions, make_key
from imagenet_workloads.prepare.expected_classes import ExpectedClasses
from imagenet_workloads.prepare.plan import TRAIN, VALIDATION, Plan, PlannedImage
from imagenet_workloads.prepare.scan import Scan, scan
from imagenet_workloads.prepare.sources import labels
from imagenet_workloads.prepare.sources.label_file import LabelFile
from imagenet_workloads.prepare.sources.source import Source, Validation
from imagenet_workloads.prepare.split import Classes, Numbers
from imagenet_workloads.telemetry.preparation import PreparationRecorder

_log = logging.getLogger(__name__)

# The most names in a line of the log.
_NAMED = 20


@dataclass(frozen=True)
class IndexRequest:
    """The options of an index run.

    Attributes:
        source: The source of the training images, and of the validation images unless they have
            another.
        validation: The source of the validation images, if it is another one.
        data: The dataset volume.
        options: The options that change bytes.
        codec: `auto`, `opencv` or `planes`.
        max_skipped_fraction: The largest fraction of damaged images, 0 to 1.
        expected: the classes that the dataset must have.
        class_words: a file with the words of the classes; None without.
        words_of_classes: words of single classes, in place of the file's.
    """

    source: Source
    validation: Validation | None
    data: Path
    options: DatasetOptions
    codec: str
    max_skipped_fraction: float
    expected: ExpectedClasses = field(default_factory=ExpectedClasses)
    class_words: Path | LabelFile | None = None
    words_of_classes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexResult:
    """The result of index, which the operator reads.

    Attributes:
        key: The dataset's key.
        classes: The number of classes.
        train: The planned training images.
        validation: The planned validation images.
        shards: The shards of both splits, which are pack's completions.
        dropped_classes: The number of dropped classes.
        sealed: Whether the dataset is complete, so that no other step is needed.
        passed_over: files that are no images, by suffix.
        unknown_labels: validation images of classes that the training images lack.
        skipped: damaged images of a sealed dataset.
    """

    key: str
    classes: int
    train: int
    validation: int
    shards: int
    dropped_classes: int
    sealed: bool
    passed_over: Mapping[str, int] = field(default_factory=dict)
    unknown_labels: int = 0
    skipped: int = 0

    def to_document(self) -> dict[str, Any]:
        """As JSON values; what was left out only if anything was."""
        document: dict[str, Any] = {
            "key": self.key,
            "classes": self.classes,
            "images": {"train": self.train, "validation": self.validation},
            "shards": self.shards,
            "droppedClasses": self.dropped_classes,
            "sealed": self.sealed,
        }
        left_out = {
            "passedOver": dict(self.passed_over),
            "unknownLabels": self.unknown_labels,
            "skippedImages": self.skipped,
        }
        return document | {name: value for name, value in left_out.items() if value}


@dataclass(frozen=True)
class _Part:
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

    def planned(self, start: int, end: int) -> Iterator[PlannedImage]:
        for position in range(start, end):
            number = int(self.numbers[position])
            label = int(self.labels[self.class_of[number]])
            yield PlannedImage(position, label, *self.scan.row(number))


def run(request: IndexRequest, recorder: PreparationRecorder) -> IndexResult:
    """Index a source.

    Raises:
        InputError: The source or an option is invalid.
        StorageError: The volume cannot be written, or is too small.
    """
    codec = choose(request.codec)
    atomic_files.make_folder(request.data / "datasets")
    with (
        atomic_files.unnamed_file(request.data) as rows,
        atomic_files.unnamed_file(request.data) as own_rows,
        listing_journal.kept(request.source, request.data / "datasets"),
    ):
        found = scan(request.source, rows, recorder.listed)
        _log_notes(found)
        classes = _choose_classes(found, request)
        parts = _divide(request, found, classes, own_rows, recorder)
        plan = _plan(request, found, classes, parts, codec)
        dataset = plans.folder_of(request.data, plan.key)
        sealed = None
        if regular_files.exists(dataset / datasets.FILE_NAME):
            sealed = _check_sealed(dataset, plan, request.max_skipped_fraction)
        else:
            _leave(dataset, plan, parts, codec, request.max_skipped_fraction)
        _leave_plan(dataset, plan, parts)
    _log.info("the dataset is %s%s", dataset, ", sealed already" if sealed else "")
    return _result(plan, sealed)


def _result(plan: Plan, sealed: datasets.Dataset | None) -> IndexResult:
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
    )


def _choose_classes(found: Scan, request: IndexRequest) -> Classes:
    options = request.options
    counts = np.bincount(found.classes(), minlength=len(found.class_names)).tolist()
    classes = split.choose_classes(
        found.class_names, counts, found.notes.empty, options.min_images_per_class
    )
    _log.info("%d images of %d classes", len(found), len(found.class_names))
    if classes.dropped:
        dropped = [f"{name} ({count})" for name, count in classes.dropped.items()]
        _log.info(
            "dropped for fewer than %d images: %s", options.min_images_per_class, _listed(dropped)
        )
    images = dict(zip(found.class_names, counts, strict=True))
    request.expected.check({name: images[name] for name in classes.names}, classes.dropped)
    return classes


def _divide(
    request: IndexRequest, found: Scan, classes: Classes, rows: Any, recorder: PreparationRecorder
) -> dict[str, _Part]:
    options = request.options
    class_of = found.classes()
    train, drawn = split.draw(
        class_of, found.class_names, classes, options.validation_per_class, options.seed
    )
    parts = {TRAIN: _Part(request.source, found, train, class_of, classes.labels)}
    if request.validation is not None:
        parts[VALIDATION] = _own_validation(
            request, request.validation, found, classes, rows, recorder
        )
    elif len(drawn):
        parts[VALIDATION] = _Part(request.source, found, drawn, class_of, classes.labels)
    for name, part in parts.items():
        split.shuffle(part.numbers, options.seed, name)
    return parts


def _own_validation(
    request: IndexRequest,
    validation: Validation,
    found: Scan,
    classes: Classes,
    rows: Any,
    recorder: PreparationRecorder,
) -> _Part:
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
    allowed = limits.allowed(request.max_skipped_fraction, len(listed))
    limits.check_unknown_labels(where, unknown, found.class_names, len(listed), allowed, remedy)
    rare = len(listed) - len(kept) - unknown.total()
    if rare:
        _log.info("%d validation images are of classes with too few images, and left out", rare)
    return _Part(validation.source, listed, kept, class_of, label_of, unknown)


def _validation_classes(
    validation: Validation, listed: Scan, class_names: Sequence[str], unknown: Counter[str]
) -> npt.NDArray[Any]:
    """The class of each validation image, as a position in the training classes, or UNKNOWN."""
    if validation.labels is not None:
        names = lambda: (row.name for row in listed.rows())  # noqa: E731
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
    request: IndexRequest, found: Scan, classes: Classes, parts: dict[str, _Part], codec: Codec
) -> Plan:
    writer = datasets.WriterVersion(version=WRITER_VERSION, codec=codec.name)
    validation = None
    if request.validation is not None:
        file = request.validation.labels
        own = parts[VALIDATION].scan.fingerprint()
        validation = (own, "" if file is None else labels.fingerprint(file))
    images = {name: len(part.numbers) for name, part in parts.items()}
    # Drawn validation images are of the training images' scan.
    scans = {id(part.scan): part.scan for part in parts.values()}.values()
    format = formats.named(request.options.format)
    is_own = request.class_words is request.source.own_words
    words = class_words.read(request.class_words, classes.names, may_lack_all=is_own)
    words = class_words.merged(words, request.words_of_classes, classes.names)
    counts = split.shard_counts(images[TRAIN], images.get(VALIDATION, 0), request.options.shards)
    return Plan(
        key=make_key(writer, request.options, found.fingerprint(), validation, words),
        writer=writer,
        options=request.options,
        classes=classes.names,
        dropped_classes=classes.dropped,
        passed_over=dict(sum((one.notes.suffixes for one in scans), Counter[str]()).most_common()),
        unknown_labels=parts[VALIDATION].unknown if VALIDATION in parts else {},
        class_words=words,
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


def _leave(
    dataset: Path, plan: Plan, parts: dict[str, _Part], codec: Codec, max_skipped_fraction: float
) -> None:
    atomic_files.make_folder(dataset)
    atomic_files.sweep(dataset, atomic_files.ABANDONED_SECONDS)
    format = formats.named(plan.options.format)
    recipe = Recipe(plan.options.resize, plan.options.quality)
    needed = sum(
        estimate.bytes_of(part.source, part.scan, part.numbers, recipe, codec, format)
        for part in parts.values()
    )
    atomic_files.require_space(dataset, needed - shards.bytes_present(dataset, plan), "the dataset")
    limits.write(dataset, max_skipped_fraction)


def _leave_plan(dataset: Path, plan: Plan, parts: dict[str, _Part]) -> None:
    """Write the plan, unless an earlier run has; one that was cut off is written again."""
    if plans.is_whole(dataset):
        # The same images may be in another version of the archive now.
        plans.update_sources(dataset, plan)
    else:
        plans.remove(dataset)
        plans.write(dataset, plan, _images(plan, parts))


def _images(plan: Plan, parts: dict[str, _Part]) -> dict[str, Iterator[PlannedImage]]:
    images, ends = {}, {TRAIN: 0, VALIDATION: 0}
    for shard in plan.shards:
        start = ends[shard.split]
        ends[shard.split] = start + shard.images
        images[shard.name] = parts[shard.split].planned(start, ends[shard.split])
    return images


def _check_sealed(dataset: Path, plan: Plan, max_skipped_fraction: float) -> datasets.Dataset:
    """Check that a sealed dataset is valid for this run too, and return it.

    Raises:
        InputError: Its files are missing, or more images are damaged than this run allows.
    """
    sealed = datasets.read_dataset(dataset)
    for shard in (*sealed.train.shards, *sealed.validation.shards):
        lacking = _lacking(dataset, shard)
        if lacking is not None:
            raise InputError(
                f"{dataset / lacking}: is not as {datasets.FILE_NAME} says; "
                f"remove {datasets.FILE_NAME} there, and run again to make what is missing"
            )
    allowed = limits.allowed(max_skipped_fraction, plan.images())
    if sealed.skipped.count > allowed:
        raise InputError(
            f"{dataset}: {sealed.skipped.count} of {plan.images()} images were damaged "
            f"(see {sealed.skipped.report}), and --max-skipped-fraction allows {allowed}"
        )
    return sealed


def _lacking(dataset: Path, shard: datasets.Shard) -> str | None:
    """Return a file of a shard that is missing or has another length, if there is one."""
    record = dataset / shard.record
    if not record.exists() or record.stat().st_size != shard.bytes:
        return shard.record
    if shard.index is not None and not (dataset / shard.index).exists():
        return shard.index
    return None


def _log_notes(found: Scan) -> None:
    notes = found.notes
    if notes.ignored:
        suffixes = ", ".join(f"{name} {count}" for name, count in notes.suffixes.most_common())
        _log.info("ignored %d files without the name of an image (%s)", notes.ignored, suffixes)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more

"""`imagenet-seal`: verifies every byte of every shard, then writes dataset.json.

A dataset without dataset.json is never read.
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from imagenet_workloads import dataset as datasets
from imagenet_workloads import files
from imagenet_workloads.dataset import Dataset, Shard, Split
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare import checks, shards
from imagenet_workloads.prepare import plan as plans
from imagenet_workloads.prepare.plan import TRAIN, VALIDATION, Plan, PlannedShard
from imagenet_workloads.prepare.shards import ChannelStatistics, Sidecar, SkippedImage
from imagenet_workloads.prepare.sources.synthetic import SyntheticSource
from imagenet_workloads.records.image_list import read_image_list

REPORT = "skipped.jsonl"
BOXES = "boxes.jsonl"

_BLOCK = 1 << 20
_NAMED = 10
_PREPARE_AGAIN = "prepare the dataset again: that makes these shards alone"

_log = logging.getLogger(__name__)


def run(data: Path, key: str, threads: int) -> None:
    """Seal a dataset; a sealed one stays unchanged.

    Raises:
        InputError: A shard is missing or damaged, or too many images are damaged.
        StorageError: The volume cannot be written.
    """
    plan = plans.read(data, key)
    dataset = plans.folder_of(data, key)
    if files.exists(dataset / datasets.FILE_NAME):
        _log.info("%s is already sealed", dataset)
        return
    files.make_folder(dataset)
    missing = [shard.name for shard in plan.shards if not shards.is_whole(dataset, shard)]
    if missing:
        raise InputError(
            f"{dataset}: {len(missing)} of {len(plan.shards)} shards are not complete: "
            f"{', '.join(missing[:5])}{', …' if len(missing) > 5 else ''}; run imagenet-pack again"
        )
    with ThreadPoolExecutor(threads, thread_name_prefix="seal") as pool:
        checked = pool.map(lambda shard: _check(dataset, plan, shard), plan.shards)
        sidecars = {one.name: sidecar for one, sidecar in zip(plan.shards, checked, strict=True)}
    skipped = [image for sidecar in sidecars.values() for image in sidecar.skipped]
    if skipped:
        lines = [json.dumps(image.to_document()) + "\n" for image in skipped]
        files.write_file(dataset / REPORT, "".join(lines).encode())
    allowed = shards.read_limit(dataset, plan.images())
    if len(skipped) > allowed:
        raise shards.too_many(
            skipped, plan.images(), allowed, f"the dataset, all named in {dataset / REPORT}"
        )
    boxes = _write_boxes(dataset, plan, sidecars)
    sealed = _dataset(plan, sidecars, skipped, boxes)
    _require_images(sealed, plan)
    sealed = _checked(dataset, plan, sealed)
    # Before the dataset is sealed, because no run cleans up after that.
    files.sweep(dataset, older_than=0)
    files.write_file(dataset / datasets.FILE_NAME, sealed.to_json().encode())
    _log.info("%s is sealed: %d images", dataset, sealed.train.images + sealed.validation.images)


def _checked(dataset: Path, plan: Plan, sealed: Dataset) -> Dataset:
    """Check the images, write the report of those that look alike, and add the findings."""
    begin = time.monotonic()
    # Synthetic images are variations of one pattern a class.
    compares = plan.sources[TRAIN]["kind"] != SyntheticSource.kind
    checked = checks.check_shards(
        sealed, lambda shard: read_image_list(dataset / shard.record), compares=compares
    )
    if checked is None:
        _log.info("the images are not compared: an older version has packed some of the shards")
        return sealed
    findings = checked.findings
    _log.info("compared %d images in %.1f s", findings.compared, time.monotonic() - begin)
    for warning in findings.warnings:
        _log.warning("%s", warning)
    if checked.pairs:
        lines = (json.dumps(pair).encode() + b"\n" for pair in checked.pairs)
        files.write_chunks(dataset / checks.REPORT, lines)
    return replace(sealed, findings=findings)


def verify(data: Path, key: str, threads: int) -> None:
    """Reads every shard of a dataset and compares it with its checksums.

    A dataset with damaged shards is no longer sealed, and these no longer count as whole: the next
    preparation makes them again, and no others.

    Raises:
        InputError: shards are damaged; names them.
        StorageError: The volume cannot be written.
    """
    plan = plans.read(data, key)
    dataset = plans.folder_of(data, key)

    def damage(shard: PlannedShard) -> str:
        if not shards.is_whole(dataset, shard):
            return "it is not whole"
        return _difference(dataset, plan, shard, shards.read(dataset, shard))

    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        found = dict(zip(plan.shards, pool.map(damage, plan.shards), strict=True))
    damaged = {shard: what for shard, what in found.items() if what}
    is_sealed = files.exists(dataset / datasets.FILE_NAME)
    boxes_differ = is_sealed and _boxes_differ(dataset, datasets.read_dataset(dataset))
    if not damaged and not boxes_differ:
        return
    # In this order: a sealed dataset has all of its shards.
    (dataset / datasets.FILE_NAME).unlink(missing_ok=True)
    for shard in damaged:
        (dataset / shard.sidecar).unlink(missing_ok=True)
    if not damaged:
        raise _damaged_boxes(dataset)
    named = {shard.record: what for shard, what in damaged.items()}
    raise _damaged(dataset, named, len(plan.shards), _PREPARE_AGAIN)


def verify_folder(dataset: Path, threads: int) -> None:
    """Compare every shard of a sealed dataset, which needs no plan, with dataset.json.

    Raises:
        InputError: There is no sealed dataset, or shards are damaged; names them.
    """
    sealed = datasets.read_dataset(dataset)
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        found = list(pool.map(lambda shard: _damage(dataset, shard), sealed.shards))
    named = {shard.record: what for shard, what in zip(sealed.shards, found, strict=True) if what}
    if named:
        remedy = "run imagenet-seal --verify with --data and --key on its volume, then"
        raise _damaged(dataset, named, len(sealed.shards), f"{remedy} {_PREPARE_AGAIN}")
    if _boxes_differ(dataset, sealed):
        raise _damaged_boxes(dataset)


def _damaged(dataset: Path, damage: dict[str, str], total: int, remedy: str) -> InputError:
    named = "; ".join(f"{record}: {what}" for record, what in list(damage.items())[:_NAMED])
    return InputError(f"{dataset}: {len(damage)} of {total} shards are damaged: {named}; {remedy}")


def _boxes_differ(dataset: Path, sealed: Dataset) -> bool:
    boxes = sealed.bounding_boxes
    try:
        return boxes is not None and _sha256(dataset / boxes.file) != boxes.sha256
    except OSError:
        return True


def _damaged_boxes(dataset: Path) -> InputError:
    return InputError(
        f"{dataset / BOXES}: is not as {datasets.FILE_NAME} says; prepare the dataset again: that "
        "writes the file again, and no shard"
    )


def _damage(dataset: Path, shard: Shard) -> str:
    """Compare a shard with dataset.json, and its index with the sidecar, if that can be read."""
    path = dataset / shard.record
    try:
        if (length := path.stat().st_size) != shard.bytes:
            return f"it has {length} bytes, not {shard.bytes}"
        if _sha256(path) != shard.sha256:
            return "its checksum is wrong"
        sidecar = shards.read_if_possible(path.with_suffix(".json"))
        if sidecar is None:
            return ""
        if shard.index and sidecar.index_sha256 not in (None, _sha256(dataset / shard.index)):
            return "its index is damaged"
        if shard.image_list and sidecar.image_list_sha256 not in (
            None,
            _sha256(dataset / shard.image_list),
        ):
            return "its list of images is damaged"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return ""


def _require_images(sealed: Dataset, plan: Plan) -> None:
    """Check that nothing that was planned is empty, however many damaged images are allowed."""
    counts = sealed.train.per_class or ()
    empty = [name for name, count in zip(sealed.classes, counts, strict=True) if not count]
    if empty:
        what = "class" if len(empty) == 1 else "classes"
        named = ", ".join(empty[:_NAMED]) + (", …" if len(empty) > _NAMED else "")
        raise InputError(
            f"every training image of the {what} {named} is damaged ({REPORT} says why); mend "
            f"the images, or remove the {what} from the source"
        )
    if plan.images(VALIDATION) and not sealed.validation.images:
        raise InputError(
            f"every validation image is damaged ({REPORT} says why); mend the images, or prepare "
            "the dataset without a validation"
        )


def _check(dataset: Path, plan: Plan, shard: PlannedShard) -> Sidecar:
    """Compare a whole shard with its sidecar; without that, pack writes the shard again."""
    sidecar = shards.read(dataset, shard)
    difference = _difference(dataset, plan, shard, sidecar)
    if difference:
        (dataset / shard.sidecar).unlink(missing_ok=True)
        raise InputError(
            f"{dataset / shard.record}: {difference}; the shard is no longer complete: "
            "run imagenet-pack to write it again"
        )
    return sidecar


def _difference(dataset: Path, plan: Plan, shard: PlannedShard, sidecar: Sidecar) -> str:
    digest = hashlib.sha256()
    try:
        records = shard.format.count_records(_blocks(dataset / shard.record, digest))
    except ValueError as error:
        return str(error)
    of_index, of_list = sidecar.index_sha256, sidecar.image_list_sha256
    is_index_whole = of_index is None or of_index == _sha256(dataset / shard.index)
    is_list_whole = of_list is None or of_list == _sha256(dataset / shard.image_list)
    checks = (
        (sidecar.key == plan.key, "it belongs to another dataset"),
        (digest.hexdigest() == sidecar.record_sha256, "its checksum is wrong"),
        (is_index_whole, "its index is damaged"),
        (is_list_whole, "its list of images is damaged"),
        (records == sidecar.records, "its number of records is wrong"),
        (records + len(sidecar.skipped) == shard.images, "it lacks images"),
        (sum(sidecar.per_class) == records, "its images of each class do not add up"),
        (len(sidecar.per_class) == len(plan.classes), "its number of classes is wrong"),
    )
    return next((message for right, message in checks if not right), "")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _blocks(path: Path, digest: Any) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            yield block


def _write_boxes(
    dataset: Path, plan: Plan, sidecars: dict[str, Sidecar]
) -> datasets.BoundingBoxes | None:
    """Write the boxes of all images, if the dataset has any."""
    if not plan.bounding_boxes:
        return None
    digest, images, boxes = hashlib.sha256(), 0, 0

    def lines() -> Iterator[bytes]:
        nonlocal images, boxes
        for shard in plan.shards:
            for image in sidecars[shard.name].boxes:
                images, boxes = images + 1, boxes + len(image.boxes)
                line = json.dumps({"split": shard.split, **image.to_document()}).encode() + b"\n"
                digest.update(line)
                yield line

    files.write_chunks(dataset / BOXES, lines())
    # Damaged images, which were planned too, have no boxes.
    counts = {**plan.bounding_boxes, "images": images, "boxes": boxes}
    return datasets.BoundingBoxes(counts, BOXES, digest.hexdigest())


def _dataset(
    plan: Plan,
    sidecars: dict[str, Sidecar],
    skipped: list[SkippedImage],
    boxes: datasets.BoundingBoxes | None,
) -> Dataset:
    statistics = ChannelStatistics()
    for shard in plan.shards:
        if shard.split == TRAIN:
            statistics += sidecars[shard.name].statistics
    mean, std = (
        [round(value, 3) for value in moment()] for moment in (statistics.mean, statistics.std)
    )
    return Dataset(
        key=plan.key,
        format=plan.options.format,
        writer=plan.writer,
        options=plan.options.to_document(),
        classes=plan.classes,
        dropped_classes=plan.dropped_classes,
        passed_over=plan.passed_over,
        decision=plan.decision,
        unknown_labels=plan.unknown_labels,
        class_words=plan.class_words,
        train=_split(plan, sidecars, TRAIN),
        validation=_split(plan, sidecars, VALIDATION),
        mean=(mean[0], mean[1], mean[2]),
        std=(std[0], std[1], std[2]),
        skipped=datasets.Skipped(len(skipped), REPORT if skipped else None),
        bounding_boxes=boxes,
        packed_before=datasets.read_packed_before(Fields(plan.sources[TRAIN], "sources.train")),
    )


def _split(plan: Plan, sidecars: dict[str, Sidecar], split: str) -> Split:
    planned = [shard for shard in plan.shards if shard.split == split]
    parts = [sidecars[shard.name] for shard in planned]
    per_class = [sum(counts) for counts in zip(*(part.per_class for part in parts), strict=True)]
    return Split(
        images=sum(part.records for part in parts),
        per_class=tuple(per_class) or (0,) * len(plan.classes),
        shards=tuple(
            Shard(
                shard.record,
                None if part.index_sha256 is None else shard.index,
                part.records,
                part.bytes,
                part.record_sha256,
                None if part.image_list_sha256 is None else shard.image_list,
            )
            for shard, part in zip(planned, parts, strict=True)
        ),
    )

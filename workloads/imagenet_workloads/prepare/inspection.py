"""What a source holds, for a manifest that is still to be written: classes, images, damage.

The source is listed as index lists it, so that the manifest's job sees the same classes and splits.
Then images are decoded as pack decodes them, in a random order: all of them, unless their number or
the time is limited. Nothing is kept.
"""

import hashlib
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import checks, codecs, image_metadata
from imagenet_workloads.prepare.checks import Checked
from imagenet_workloads.prepare.codecs.codec import Recipe
from imagenet_workloads.prepare.codecs.perceptual_hash import perceptual_hashes
from imagenet_workloads.prepare.layouts import labels
from imagenet_workloads.prepare.plan import TRAIN, VALIDATION
from imagenet_workloads.prepare.scan import Scan, scan
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.stores.blob import DamagedImageError, map_in_order, readable
from imagenet_workloads.prepare.transcode import is_heif, read_image, transcode

# Small, because only the decoding matters.
_SMALL = Recipe(64, 90)
_NAMED = 10


class _Place(NamedTuple):
    """An image of a split: its number in the listing, its source and where it is in it."""

    position: int
    split: str
    class_name: str
    source: Source
    name: str
    offset: int
    size: int


class _Seen(NamedTuple):
    """What decoding an image has shown; `reason` says why it is damaged, or is empty."""

    place: _Place
    reason: str
    digest: bytes = b""
    hash: int = 0
    shorter_edge: int = 0
    is_turned: bool = False


@dataclass
class Sample:
    """The images that were decoded."""

    images: int = 0
    is_whole: bool = True  # whether these are all images of the source
    damaged: Counter[str] = field(default_factory=Counter)
    # First of them, each with the reason.
    reasons: list[tuple[str, str]] = field(default_factory=list)
    copies: int = 0  # files with the bytes of another one
    same: list[list[str]] = field(default_factory=list)  # names of the first groups of equal files
    conflicts: int = 0  # those groups that are in more than one class or split
    turned: int = 0  # images that their EXIF orientation turns
    # Shorter edges of the others, upright or not, in pixels.
    edges: list[int] = field(default_factory=list)
    seen: list[_Seen] = field(default_factory=list)  # all images that are not damaged

    def to_document(self) -> dict[str, Any]:
        return {
            "images": self.images,
            "isWhole": self.is_whole,
            "damaged": dict(self.damaged),
            "damagedFiles": [{"name": name, "reason": reason} for name, reason in self.reasons],
            "copies": self.copies,
            "copiedFiles": self.same,
            "conflicts": self.conflicts,
            "turned": self.turned,
            "shorterEdge": {
                "median": int(median(self.edges)) if self.edges else 0,
                "largest": max(self.edges, default=0),
            },
        }


def inspect(source: Source, scratch: Path, images: int | None, seconds: float) -> dict[str, Any]:
    """List a source and decode its images; return what it holds, as JSON values.

    No image is decoded after so many `images` (None: all) or `seconds`.

    Raises:
        InputError: The source cannot be listed, or has no images.
    """
    source.scratch = scratch
    with files.unnamed_file(scratch) as rows, files.unnamed_file(scratch) as own_rows:
        found = scan(source, rows, lambda *_: None)
        validation = source.own_validation() if source.own_validation else None
        places = _places(found, source, TRAIN, found.class_names, 0)
        counted = None
        if validation is not None:
            listed = scan(validation.source, own_rows, lambda *_: None)
            counted, names = _count_validation(validation, listed, found.class_names)
            places += _places(listed, validation.source, VALIDATION, names, len(places))
        source.require_classes()
        sample = _decode(places, images, seconds)
    counts = np.bincount(found.classes(), minlength=len(found.class_names)).tolist()
    per_class = dict(sorted(zip(found.class_names, counts, strict=True)))
    checked = _check(sample, tuple(per_class), per_class)
    own = 0 if counted is None else counted["images"]
    return {
        "where": source.where,
        "classes": per_class,
        "emptyClasses": sorted(found.notes.empty),
        "validation": counted,
        "bytes": found.bytes,
        "said": source.said,
        "warnings": list(source.warnings),
        "leftOut": {name: count for name, (count, _) in found.notes.left_out.items()},
        "passedOver": dict(found.notes.suffixes),
        "sample": sample.to_document(),
        "checks": checked.to_document(len(per_class), len(found), own),
    }


def _count_validation(
    validation: Validation, listed: Scan, class_names: Sequence[str]
) -> tuple[dict[str, int], Sequence[str]]:
    """Count the source's own validation images, and name their classes.

    The classes of images with a label file are not distinguished: all have the empty name.
    """
    if validation.labels is None:
        known = set(class_names)
        counts = np.bincount(listed.classes(), minlength=len(listed.class_names)).tolist()
        unknown = sum(
            count
            for name, count in zip(listed.class_names, counts, strict=True)
            if name not in known
        )
        return {"images": len(listed), "unknown": unknown}, listed.class_names
    missing = Counter[str]()
    labels.read(
        validation.labels, lambda: (name for *_, name in listed.rows()), class_names, missing
    )
    return {"images": len(listed), "unknown": missing.total()}, [""] * len(listed.class_names)


def _places(
    found: Scan, source: Source, split: str, names: Sequence[str], begin: int
) -> list[_Place]:
    listed = zip(found.classes().tolist(), found.rows(), strict=True)
    return [
        _Place(position, split, names[number], source, name, offset, size)
        for position, (number, (offset, size, name)) in enumerate(listed, start=begin)
    ]


def _decode(places: Sequence[_Place], most: int | None, seconds: float) -> Sample:
    """Decode images in a random order, until their number or the time is used up."""
    order = np.random.default_rng(0).permutation(len(places))[:most].tolist()
    codec = codecs.choose(codecs.OPENCV)
    end = time.monotonic() + seconds

    def chosen() -> Iterator[_Place]:
        for number in order:
            if time.monotonic() > end:
                return
            yield places[number]

    def see(place: _Place) -> _Seen:
        try:
            data = read_image(place.source, place.name, place.offset, place.size)
            packed = transcode(data, _SMALL, codec)
            turned = not is_heif(data) and image_metadata.orientation(data) > 1
        except (DamagedImageError, PermissionError, ValueError) as error:
            return _Seen(place, str(error))
        digest = hashlib.sha256(data).digest()
        (hash,) = perceptual_hashes([packed.thumbnail])
        return _Seen(place, "", digest, hash, min(packed.original), turned)

    sample, by_digest = Sample(), defaultdict[bytes, list[_Place]](list)
    reads = max((place.source.reads_at_once for place in places[:1]), default=1)
    for seen in map_in_order(see, chosen(), max(reads, len(os.sched_getaffinity(0)))):
        sample.images += 1
        if seen.reason:
            sample.damaged[seen.place.class_name] += 1
            sample.reasons.append((readable(seen.place.name), seen.reason))
            continue
        by_digest[seen.digest].append(seen.place)
        sample.turned += seen.is_turned
        sample.edges.append(seen.shorter_edge)
        sample.seen.append(seen)
    sample.is_whole = sample.images == len(places)
    sample.reasons = sorted(sample.reasons)[:_NAMED]
    groups = [group for group in by_digest.values() if len(group) > 1]
    sample.copies = sum(len(group) - 1 for group in groups)
    different = [len({(one.split, one.class_name) for one in group}) > 1 for group in groups]
    sample.conflicts = sum(different)
    # Those in several classes or splits first: one of their labels is wrong, or they leak.
    ranked = sorted(
        (not differs, sorted(readable(one.name) for one in group))
        for group, differs in zip(groups, different, strict=True)
    )
    sample.same = [names for _, names in ranked[:_NAMED]]
    return sample


def _check(sample: Sample, classes: Sequence[str], per_class: Mapping[str, int]) -> Checked:
    numbers = {name: number for number, name in enumerate(classes)}
    seen = sorted(sample.seen, key=lambda one: one.place.position)
    rows = (
        (
            one.hash,
            one.shorter_edge,
            numbers.get(one.place.class_name, -1),
            one.place.split == VALIDATION,
        )
        for one in seen
    )
    return checks.check(
        checks.as_rows(rows),
        lambda wanted: [seen[number].place.name for number in wanted],
        classes,
        per_class,
    )


def require_several_classes(document: Mapping[str, Any]) -> None:
    """Refuse a source of one class: a network has to distinguish something."""
    if len(document["classes"]) < 2:
        (name,) = document["classes"]
        raise InputError(
            f"{document['where']}: all images are of one class, {name or 'without a name'}; put "
            "the images of each class into a folder of its own, below one folder"
        )

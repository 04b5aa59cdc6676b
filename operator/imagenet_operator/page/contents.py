"""What a page shows: the parts of a job that `cli.report_page` has found.

dataset.json and skipped.jsonl come from a volume, so a value of another type than expected is left
out, as if it were absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from imagenet_spec.evaluation import Evaluation
from imagenet_spec.events import Run
from imagenet_spec.resource import ImageNetJob

Part = Literal["runs", "dataset", "evaluation"]
"""A part of a page that does not come from the job's status."""


@dataclass(frozen=True)
class SkippedImage:
    """A damaged image that is not in the dataset: its file, its class, and what is wrong."""

    name: str
    class_name: str
    reason: str


@dataclass(frozen=True)
class Dataset:
    """What the page shows of dataset.json.

    Attributes:
        classes: The names by label; empty if the file has none.
        words: What people call a class, by its name; of some classes.
        per_class: The images of each class by label, of the splits `train` and `validation`; a
            split is absent if the file does not count its images by class.
        facts: Names and values of what holds for all images, such as the format.
        dropped_classes: Classes with too few images, with their images.
        unknown_labels: Validation images that were left out, by their class.
        skipped: The first damaged images.
    """

    classes: Sequence[str] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    per_class: Mapping[str, Sequence[int]] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    dropped_classes: Mapping[str, int] = field(default_factory=dict)
    unknown_labels: Mapping[str, int] = field(default_factory=dict)
    skipped: Sequence[SkippedImage] = ()


@dataclass(frozen=True)
class Contents:
    """The content of a page.

    `account` is the document of `imagenetctl report --output json`. `pictures` are thumbnails by
    their names, without metadata. `absent` says in a sentence why a part is missing, and where it
    is.
    """

    job: ImageNetJob
    account: Mapping[str, Any]
    runs: Sequence[Run] = ()
    dataset: Dataset | None = None
    evaluation: Evaluation | None = None
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    absent: Mapping[Part, str] = field(default_factory=dict)


def read_dataset(document: Mapping[str, Any], skipped: Sequence[object] = ()) -> Dataset:
    """Return what the page shows of a dataset.json, and of the lines of skipped.jsonl."""
    found = document.get("classes")
    classes = (
        found if isinstance(found, list) and all(isinstance(one, str) for one in found) else []
    )
    options, writer = _object(document, "options"), _object(document, "writer")
    resize = options.get("resize")
    facts = {
        "format": document.get("format"),
        "codec": writer.get("codec"),
        "shorter edge": f"{resize} pixels" if type(resize) is int else "as in the source",
        "JPEG quality": options.get("quality"),
        "seed": options.get("seed"),
    }
    splits = {name: _object(_object(document, "splits"), name) for name in ("train", "validation")}
    per_class = {}
    for name, split in splits.items():
        counts = split.get("perClass")
        if (
            isinstance(counts, list)
            and len(counts) == len(classes)
            and all(type(count) is int for count in counts)
        ):
            per_class[name] = counts
    return Dataset(
        classes=classes,
        words={
            name: word
            for name, word in _object(document, "classWords").items()
            if isinstance(word, str)
        },
        per_class=per_class,
        facts={name: str(value) for name, value in facts.items() if isinstance(value, (str, int))},
        dropped_classes=_counts(document, "droppedClasses"),
        unknown_labels=_counts(document, "unknownLabels"),
        skipped=[
            SkippedImage(*(str(line.get(key, "")) for key in ("name", "class", "reason")))
            for line in skipped
            if isinstance(line, dict)
        ],
    )


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _counts(document: Mapping[str, Any], name: str) -> dict[str, int]:
    return {key: count for key, count in _object(document, name).items() if type(count) is int}

"""What a check of a dataset has found: a field of dataset.json, and its sentences.

`prepare.checks` makes it. Findings are warnings: no image is dropped for them. A finding is absent
if there is none of its kind. Names are printable, and only the first few are named; the report
lists all pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from imagenet_workloads.fields import Fields

_Found = TypeVar("_Found")

NAMED = 5
"""The most examples of a finding."""

# All sentences are in a termination message of 4,096 bytes, where a letter beyond ASCII takes 6.
_LONGEST_NAME = 40


@dataclass(frozen=True)
class Copies:
    """Images that look like another one, some of them like an image of another class.

    `examples` are the names of the first ones, each with that of the other image.
    """

    images: int
    other_class: int
    examples: tuple[tuple[str, str], ...]

    def to_document(self) -> dict[str, Any]:
        examples = [{"image": image, "like": like} for image, like in self.examples]
        return {"images": self.images, "otherClass": self.other_class, "examples": examples}

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        examples = ((one.text("image"), one.text("like")) for one in fields.objects("examples"))
        return cls(fields.integer("images"), fields.integer("otherClass"), tuple(examples))


@dataclass(frozen=True)
class FewImages:
    """Images of one kind: their number, and the names of the first ones."""

    images: int
    examples: tuple[str, ...]

    def to_document(self) -> dict[str, Any]:
        return {"images": self.images, "examples": list(self.examples)}

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        return cls(fields.integer("images"), fields.texts("examples"))


@dataclass(frozen=True)
class Imbalance:
    """The classes with the most and with the fewest training images."""

    largest: str
    largest_images: int
    smallest: str
    smallest_images: int

    def to_document(self) -> dict[str, Any]:
        return {
            "largest": {"class": self.largest, "images": self.largest_images},
            "smallest": {"class": self.smallest, "images": self.smallest_images},
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        largest, smallest = fields.object("largest"), fields.object("smallest")
        return cls(
            largest.text("class"),
            largest.integer("images"),
            smallest.text("class"),
            smallest.integer("images"),
        )


@dataclass(frozen=True)
class Findings:
    """All findings of a dataset.

    Attributes:
        compared: the images whose hashes were compared.
        is_whole: whether all pairs of them were; false if very many images look alike.
        in_training: validation images that look like a training image.
        near_duplicates: images that look like an earlier one of their split.
        imbalance: the classes, if their numbers of images differ much.
        least_edge: half of the usual shorter edge, in pixels; `small` images are below it.
        blank: images without contrast, which cannot be compared.
        report: the name of the file beside dataset.json that lists all pairs.
    """

    compared: int
    is_whole: bool = True
    in_training: Copies | None = None
    near_duplicates: Copies | None = None
    imbalance: Imbalance | None = None
    least_edge: int = 0
    small: FewImages | None = None
    blank: FewImages | None = None
    report: str | None = None

    def to_document(self) -> dict[str, Any]:
        found = {
            "inTraining": self.in_training,
            "nearDuplicates": self.near_duplicates,
            "imbalance": self.imbalance,
            "small": self.small,
            "blank": self.blank,
        }
        return {
            "compared": self.compared,
            "isWhole": self.is_whole,
            "leastEdge": self.least_edge,
            **{name: one.to_document() for name, one in found.items() if one is not None},
            **({} if self.report is None else {"report": self.report}),
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        """Parse the result of `to_document`; InputError if a field is missing or invalid."""
        is_whole = fields.values.get("isWhole")
        if not isinstance(is_whole, bool):
            raise fields.wrong("isWhole", "must be true or false")
        return cls(
            compared=fields.integer("compared"),
            is_whole=is_whole,
            in_training=_read(Copies.from_fields, fields, "inTraining"),
            near_duplicates=_read(Copies.from_fields, fields, "nearDuplicates"),
            imbalance=_read(Imbalance.from_fields, fields, "imbalance"),
            least_edge=fields.integer("leastEdge"),
            small=_read(FewImages.from_fields, fields, "small"),
            blank=_read(FewImages.from_fields, fields, "blank"),
            report=fields.file_name("report") if fields.has("report") else None,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings as sentences, with one example each; empty if there are none."""
        sentences = []
        least = "" if self.is_whole else "at least "
        if copies := self.in_training:
            what = _counted(copies.images, "validation image looks", "validation images look")
            sentences.append(
                f"{least}{what} like a training image, so the accuracy is too high: "
                f"{_pairs(copies)}"
            )
        if copies := self.near_duplicates:
            what = _counted(copies.images, "image looks", "images look")
            sentences.append(f"{least}{what} like another one of the same split: {_pairs(copies)}")
        if classes := self.imbalance:
            largest = f"{_short(classes.largest)} has {classes.largest_images:,}"
            few = _counted(classes.smallest_images, "training image", "training images")
            sentences.append(
                f"the classes are unbalanced: {_short(classes.smallest)} has {few}, {largest}"
            )
        if few_images := self.small:
            what = _counted(few_images.images, "image has", "images have")
            sentences.append(
                f"{what} a shorter edge below {self.least_edge} pixels, half of what is usual: "
                f"{_names(few_images)}"
            )
        if few_images := self.blank:
            what = _counted(few_images.images, "image has", "images have")
            sentences.append(f"{what} too little contrast to compare: {_names(few_images)}")
        return tuple(sentences)


def read_findings(fields: Fields) -> Findings | None:
    """Read the field `checks` of dataset.json; None in datasets of older versions."""
    return _read(Findings.from_fields, fields, "checks")


def _read(read: Callable[[Fields], _Found], fields: Fields, name: str) -> _Found | None:
    return read(fields.object(name)) if fields.has(name) else None


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _pairs(copies: Copies) -> str:
    image, like = map(_short, copies.examples[0])
    pair = f"{image} like {like}{', …' if copies.images > 1 else ''}"
    if not copies.other_class:
        return pair
    return f"{pair}; {copies.other_class:,} of another class: check their labels"


def _names(few: FewImages) -> str:
    return f"{_short(few.examples[0])}{', …' if few.images > 1 else ''}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"

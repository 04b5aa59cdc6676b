"""WebDataset's samples: members of a tar with one stem, one after the other, one of them a label.

The class of 000017.jpg is in 000017.cls, a number or a name, or in 000017.json under one of
`LABEL_KEYS`, or in 000017.target, .label or .txt, if that is one short line.
"""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.containers.archive import (
    Archive,
    Kind,
    Member,
    holds_image,
    pass_over,
    require_data,
)
from imagenet_workloads.prepare.source import Image, Notes, class_name_in
from imagenet_workloads.prepare.stores.blob import readable

KIND = "WebDataset"
LABEL_KEYS = ("label", "cls", "class", "class_name")

_CLASS, _JSON, _TEXT = "cls", "json", "txt"
# Those that say most first.
_SUFFIXES = (_CLASS, _JSON, "target", "label", _TEXT)
_LONGEST = 1 << 20
# A longer line of text is no class, but says what is on the image.
_LONGEST_TEXT = 100


class _Sample(NamedTuple):
    """What counts of a sample: its image, and the member with its class and the content of that."""

    image: Member | None = None
    label: Member | None = None
    content: bytes = b""


_NOTHING = _Sample()


def images(
    archive: Archive,
    members: Iterator[Member],
    prefix: str,
    notes: Notes,
    may_be_labelled: Callable[[Member], bool] = lambda member: True,
) -> Iterator[Image]:
    """Yields the images of a tar or zip, each with the label beside it as its class, or none.

    `may_be_labelled` says whether a member is looked at as a part of a sample.

    Raises:
        InputError: an image cannot be read, or its label is empty or no class's name.
    """
    for sample in _samples(archive, members, notes, may_be_labelled):
        if sample.image is not None:
            image = sample.image
            require_data(image, archive.blob.where)
            label = _label_of(archive, sample, image, notes)
            yield Image(label, f"{prefix}{image.name}", image.offset, image.size, image.mtime)
        elif sample.label is not None:
            pass_over(sample.label, notes)


def _samples(
    archive: Archive,
    members: Iterator[Member],
    notes: Notes,
    may_be_labelled: Callable[[Member], bool],
) -> Iterator[_Sample]:
    stem, sample, twin = "", _NOTHING, ""
    for member in members:
        if not may_be_labelled(member):
            yield sample
            stem, sample, twin = "", _NOTHING, ""
            if holds_image(member):
                yield _Sample(member)
            else:
                pass_over(member, notes)
            continue
        # A sample's name is the path up to the first dot of its last part.
        folder, slash, base = member.name.rpartition("/")
        if (own := folder + slash + base.partition(".")[0]) != stem:
            yield sample
            stem, sample, twin = own, _NOTHING, ""
        if holds_image(member):
            if sample.image is not None:
                twin = sample.image.name
                _require_one(archive, sample._replace(image=member), twin)
                yield sample
            sample = _Sample(member, sample.label, sample.content)
        elif _rank(member) < len(_SUFFIXES):
            if sample.label is None or _rank(member) < _rank(sample.label):
                if sample.label is not None:
                    pass_over(sample.label, notes)
                # Read now: later, the bytes of a server would take another request.
                is_small = member.size <= _LONGEST
                content = archive.read(member.name, member.offset, member.size) if is_small else b""
                sample = sample._replace(label=member, content=content)
                _require_one(archive, sample, twin)
            else:
                pass_over(member, notes)
        else:
            pass_over(member, notes)
    yield sample


def _require_one(archive: Archive, sample: _Sample, twin: str) -> None:
    """Checks that a label is of one image: without labels, two images may have one stem."""
    if twin and sample.label is not None and sample.image is not None:
        raise InputError(
            f"{archive.blob.where}: a sample has two images, {readable(twin)} and "
            f"{readable(sample.image.name)}; keep one"
        )


def _label_of(archive: Archive, sample: _Sample, image: Member, notes: Notes) -> str:
    """The class of a sample; empty if nothing beside its image says one."""
    if sample.label is None or sample.label.size > _LONGEST:
        return ""
    where = f"{archive.blob.where}: {readable(image.name)}"
    text = sample.content.decode("utf-8", "replace").strip()
    suffix = sample.label.name.rpartition(".")[2]
    if suffix == _JSON:
        text = _label_in(text, f"{archive.blob.where}: {readable(sample.label.name)}")
    elif suffix != _CLASS and (len(text) > _LONGEST_TEXT or "\n" in text):
        text = ""
    if not text:
        if suffix == _CLASS:
            raise InputError(f"{where}: its class is empty; write it into its .cls")
        if suffix == _JSON and notes.survey is not None:
            notes.survey.unlabelled = image.name
        pass_over(sample.label, notes)
        return ""
    return class_name_in(text, where)


def _label_in(text: str, where: str) -> str:
    """The class in the JSON beside an image; empty if it has none."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: is not valid JSON: {error}") from None
    if isinstance(values, dict):
        for key in LABEL_KEYS:
            value = values.get(key)
            if isinstance(value, (str, int)) and not isinstance(value, bool):
                return str(value)
    return ""


def _rank(member: Member) -> int:
    """The rank of a file as a label; the number of suffixes if it is none."""
    suffix = member.name.rpartition(".")[2]
    is_label = member.kind is Kind.FILE and suffix in _SUFFIXES
    return _SUFFIXES.index(suffix) if is_label else len(_SUFFIXES)

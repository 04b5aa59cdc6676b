"""WebDataset's shards: tars in which the members of a sample have one stem, one after the other.

The class of 000017.jpg is in 000017.cls, a number or a name, or in 000017.json under one of
`LABEL_KEYS`. Shards with a split in their names, such as imagenet-val-0000.tar, are those of it.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from typing import NamedTuple

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.archive import (
    Archive,
    Kind,
    Member,
    holds_image,
    pass_over,
    require_data,
)
from imagenet_workloads.prepare.sources.archive_set import ArchiveSet
from imagenet_workloads.prepare.sources.file_set import FileSet
from imagenet_workloads.prepare.sources.layout import by_split
from imagenet_workloads.prepare.sources.source import (
    Blob,
    Image,
    Notes,
    Source,
    Validation,
    class_name_in,
    readable,
)
from imagenet_workloads.prepare.sources.tar import BLOCK, TarArchive, header_size

KIND = "WebDataset"
LABEL_KEYS = ("label", "cls", "class", "class_name")

_CLASS, _JSON = "cls", "json"
# The members of a shard that are looked at to recognize it. Each may take a request.
_FIRST = 10
_LONGEST = 1 << 20


class _Sample(NamedTuple):
    """What counts of a sample: its image, and the member with its class and the content of that."""

    image: Member | None = None
    label: Member | None = None
    content: bytes = b""


class WebDataset(ArchiveSet):
    """The images of some shards."""

    kind = KIND

    def scan_archive(self, name: str, archive: Archive, notes: Notes) -> Iterator[Image]:
        """The images of a shard."""
        for sample in _samples(archive, notes):
            class_name = _class_of(archive, sample)
            if sample.image is not None:
                image = sample.image
                require_data(image, archive.blob.where)
                yield Image(
                    class_name, f"{name}/{image.name}", image.offset, image.size, image.mtime
                )

    def archive_in(self, blob: Blob) -> Archive:
        """A shard."""
        return TarArchive(blob)


def open_shards(files: FileSet) -> Source | None:
    """Opens the shards of a set; None if its first archive is no shard."""
    shards = [name for name in files.names if name.endswith(".tar")]
    if not shards:
        return None
    with closing(files.open(shards[0])) as first:
        if not is_shard(first):
            return None
    training, validation = by_split(shards)
    source = WebDataset(files, training)
    if validation:
        source.own_validation = partial(Validation, WebDataset(files, validation), None)
    return source


def is_shard(blob: Blob, may_have_folders: bool = True) -> bool:
    """Whether an archive's first images have their classes beside them.

    Args:
        blob: the archive.
        may_have_folders: whether its images may be in folders, which otherwise are their classes.
    """
    if header_size(blob.read(0, BLOCK)) is None:
        return False
    first = list(islice(TarArchive(blob).members(), _FIRST))
    images = {_stem(one.name) for one in first if holds_image(one)}
    if not may_have_folders and any("/" in name for name in images):
        return False
    return any(_is_label(one) and _stem(one.name) in images for one in first)


def _samples(archive: Archive, notes: Notes) -> Iterator[_Sample]:
    stem, sample = "", _Sample()
    for member in archive.members():
        if _stem(member.name) != stem:
            yield sample
            stem, sample = _stem(member.name), _Sample()
        if holds_image(member):
            if sample.image is not None:
                raise InputError(
                    f"{archive.blob.where}: the sample {readable(stem)} has two images, "
                    f"{readable(sample.image.name)} and {readable(member.name)}; keep one"
                )
            sample = sample._replace(image=member)
        elif _is_label(member):
            # A .cls says nothing but the class.
            if sample.label is None or member.name.endswith(f".{_CLASS}"):
                # Read now: later, the bytes of a server would take another request.
                is_small = member.size <= _LONGEST
                content = archive.read(member.name, member.offset, member.size) if is_small else b""
                sample = sample._replace(label=member, content=content)
        else:
            pass_over(member, notes)
    yield sample


def _class_of(archive: Archive, sample: _Sample) -> str:
    """The class of a sample; empty without an image."""
    if sample.image is None:
        return ""
    where = f"{archive.blob.where}: {readable(sample.image.name)}"
    if sample.label is None or sample.label.size > _LONGEST:
        raise InputError(f"{where}: has no class; write it into a .cls or .json of its stem")
    text = sample.content.decode("utf-8", "replace").strip()
    if sample.label.name.endswith(f".{_JSON}"):
        text = _label_in(text, f"{archive.blob.where}: {readable(sample.label.name)}")
    if not text:
        raise InputError(f"{where}: its class is empty; write it into its .cls")
    return class_name_in(text, where)


def _label_in(text: str, where: str) -> str:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where}: is not valid JSON: {error}") from None
    if isinstance(values, dict):
        for key in LABEL_KEYS:
            if isinstance(values.get(key), (str, int)):
                return str(values[key])
    raise InputError(f"{where}: has no class; write a .cls, or one of {', '.join(LABEL_KEYS)}")


def _is_label(member: Member) -> bool:
    return member.kind is Kind.FILE and member.name.rpartition(".")[2] in (_CLASS, _JSON)


def _stem(name: str) -> str:
    """A sample's name: the path up to the first dot of its last part."""
    folder, slash, base = name.rpartition("/")
    return folder + slash + base.partition(".")[0]

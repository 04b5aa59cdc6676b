"""WebDataset's shards: tars in which the members of a sample have one stem, one after the other.

The class of 000017.jpg is in 000017.cls, a number or a name, or in 000017.json under one of
`LABEL_KEYS`. Shards with a split in their names, such as imagenet-val-0000.tar, are those of it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.archive import (
    Kind,
    Member,
    holds_image,
    pass_over,
    require_data,
)
from imagenet_workloads.prepare.sources.layout import by_split
from imagenet_workloads.prepare.sources.links import require_inside
from imagenet_workloads.prepare.sources.source import (
    Blob,
    Image,
    Notes,
    Source,
    Validation,
    changed,
    class_name_in,
    readable,
)
from imagenet_workloads.prepare.sources.tar import BLOCK, TarArchive, header_size

KIND = "WebDataset"
LABEL_KEYS = ("label", "cls", "class", "class_name")

_CLASS, _JSON = "cls", "json"
# The members of a shard that are looked at to recognize it.
_FIRST = 30
_LONGEST = 1 << 20

OpenFile = Callable[[Path], Blob]


class _Sample(NamedTuple):
    """The members of a sample that count: its image, and that with its class."""

    image: Member | None = None
    label: Member | None = None


class WebDataset(Source):
    """The images of some shards in a folder."""

    kind = KIND

    def __init__(self, root: Path, shards: Sequence[str], open_file: OpenFile) -> None:
        """Opens nothing yet.

        Args:
            root: the folder.
            shards: their names there, in order.
            open_file: opens a file.
        """
        self.where = str(root) if len(shards) != 1 else str(root / shards[0])
        self._root = root
        self._shards = shards
        self._open_file = open_file

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the shards."""
        for number, shard in enumerate(self._shards):
            notes.share = number / len(self._shards)
            archive = self._open(shard)
            try:
                for sample in _samples(archive, notes):
                    class_name = _class_of(archive, sample)
                    if sample.image is not None:
                        image = sample.image
                        require_data(image, archive.blob.where)
                        name = f"{shard}/{image.name}"
                        yield Image(class_name, name, image.offset, image.size, image.mtime)
            finally:
                archive.blob.close()

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        shard, _, member = name.partition("/")
        if not (self._root / shard).is_file():
            raise changed(str(self._root / shard), "is gone")
        archive = self._open(shard)
        try:
            return archive.read(member, offset, size)
        finally:
            archive.blob.close()

    def _open(self, shard: str) -> TarArchive:
        path = self._root / shard
        require_inside(str(path), str(self._root))
        return TarArchive(self._open_file(path))


def open_shards(root: Path, files: Sequence[str], open_file: OpenFile) -> Source | None:
    """Opens the shards of a folder; None if its first archive is no shard.

    Args:
        root: the folder.
        files: the sorted names of the archives there.
        open_file: opens a file.
    """
    shards = [name for name in files if name.endswith(".tar")]
    if not shards or not is_shard(root / shards[0], open_file):
        return None
    training, validation = by_split(shards)
    source = WebDataset(root, training, open_file)
    if validation:
        own = WebDataset(root, validation, open_file)
        source.own_validation = partial(Validation, own, None)
    return source


def is_shard(path: Path, open_file: OpenFile, may_have_folders: bool = True) -> bool:
    """Whether an archive's first images have their classes beside them.

    Args:
        path: the archive.
        open_file: opens it.
        may_have_folders: whether its images may be in folders, which otherwise are their classes.
    """
    blob = open_file(path)
    try:
        if header_size(blob.read(0, BLOCK)) is None:
            return False
        first = list(islice(TarArchive(blob).members(), _FIRST))
    finally:
        blob.close()
    images = {_stem(one.name) for one in first if holds_image(one)}
    if not may_have_folders and any("/" in name for name in images):
        return False
    return any(_is_label(one) and _stem(one.name) in images for one in first)


def _samples(archive: TarArchive, notes: Notes) -> Iterator[_Sample]:
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
                sample = sample._replace(label=member)
        else:
            pass_over(member, notes)
    yield sample


def _class_of(archive: TarArchive, sample: _Sample) -> str:
    """The class of a sample; empty without an image."""
    if sample.image is None:
        return ""
    where = f"{archive.blob.where}: {readable(sample.image.name)}"
    if sample.label is None or sample.label.size > _LONGEST:
        raise InputError(f"{where}: has no class; write it into a .cls or .json of its stem")
    content = archive.read(sample.label.name, sample.label.offset, sample.label.size)
    text = content.decode("utf-8", "replace").strip()
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

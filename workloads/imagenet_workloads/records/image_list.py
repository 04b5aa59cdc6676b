"""The file `SHARD.images.jsonl` beside a shard: where each of its records came from.

Pack writes it, a line a record, in the order of the records:

    ["n01440764/n01440764_18.JPEG", "9f1c0b5a3e72d486", 500, 375, 0]

These are the image's name in the source, its perceptual hash as 16 hexadecimal digits, width and
height in pixels before a resize, and its label. A name that is not UTF-8 has lone surrogates, as in
the plan. Datasets of older versions have no such files: there, a record has its number alone.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.errors import InputError

SUFFIX = ".images.jsonl"

# Lines that are parsed together: one by one takes three times as long.
_LINES = 256
_HASH = re.compile("[0-9a-f]{16}")
_quoted = json.encoder.encode_basestring_ascii


@dataclass(frozen=True, slots=True)
class ListedImage:
    """The image of a record.

    Attributes:
        name: in the source, such as a path below the folder or in the archive.
        hash: perceptual, 16 hexadecimal digits; all 0 if the image shows nothing.
        width: in pixels, upright, before a resize; `height` likewise.
        label: the position of its class.
    """

    name: str
    hash: str
    width: int
    height: int
    label: int


def name_of(record: str) -> str:
    """Return the name of the list of a file of records."""
    return f"{Path(record).stem}{SUFFIX}"


def to_line(image: ListedImage) -> bytes:
    """Return the line of an image."""
    row = f"[{_quoted(image.name)}, {_quoted(image.hash)}, {image.width}, {image.height}"
    return f"{row}, {image.label}]\n".encode()


def parse(content: bytes, where: str) -> Iterator[ListedImage]:
    """Yield the images of a list, in the order of the records; `where` names it in messages.

    InputError if it is damaged.
    """
    lines = iter(content.splitlines())
    try:
        while block := list(islice(lines, _LINES)):
            for name, hash, width, height, label in json.loads(b"[%s]" % b",".join(block)):
                if not _HASH.fullmatch(hash):
                    raise ValueError(f"{hash!r} is no hash")
                yield ListedImage(str(name), hash, int(width), int(height), int(label))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{where}: the list of images is damaged: {error}; run imagenet-seal --verify on the "
            "dataset, then prepare it again"
        ) from error


def read_image_list(record: Path) -> list[ListedImage] | None:
    """Return the images of a file of records, in its order; None if the dataset has no list.

    InputError if the list cannot be read, or is damaged.
    """
    path = record.with_name(name_of(record.name))
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return list(parse(content, str(path)))

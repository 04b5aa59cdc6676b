"""CIFAR-10 and CIFAR-100, as https://www.cs.toronto.edu/~kriz/cifar.html has them.

The binary version has records of one or two labels and 3,072 bytes: 32 x 32 pixels, all red ones
first. The Python version has pickles. None is unpickled: their opcodes show where the pixels and
the labels are, and an opcode alone runs nothing. The test images become the validation images.
"""

import io
import pickletools
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.source import Image, Notes, Source, Validation, class_name_in
from imagenet_workloads.prepare.stores.blob import Blob, changed

KINDS = ("CIFAR training images", "CIFAR test images")

_EDGE = 32
_PIXELS = 3 * _EDGE * _EDGE
# Records that are read together.
_TOGETHER = 256
# The largest file has 50,000 images.
_LARGEST_PICKLE = 1 << 28
_STRINGS = frozenset(
    ("BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINBYTES",
     "SHORT_BINBYTES", "STRING", "UNICODE")
)  # fmt: skip
_NUMBERS = frozenset(("BININT", "BININT1", "BININT2", "INT", "LONG1"))


@dataclass(frozen=True)
class _Version:
    """The files of a version."""

    training: tuple[str, ...]
    test: tuple[str, ...]
    names: str  # with the names of the classes
    head: int = 0  # bytes of labels before each image; the class is the last one. 0: a pickle
    key: str = ""  # of the labels in a pickle
    names_key: str = ""  # of the names in a pickle


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_VERSIONS = (
    _Version(tuple(f"{name}.bin" for name in _BATCHES), ("test_batch.bin",), "batches.meta.txt", 1),
    _Version(("train.bin",), ("test.bin",), "fine_label_names.txt", 2),
    _Version(_BATCHES, ("test_batch",), "batches.meta", 0, "labels", "label_names"),
    _Version(("train",), ("test",), "meta", 0, "fine_labels", "fine_label_names"),
)
FILES = frozenset(name for one in _VERSIONS for name in (*one.training, *one.test, one.names))


class _Batch(NamedTuple):
    """The images of one file."""

    start: int  # the first byte of the first image's pixels
    step: int  # from one image to the next
    labels: Sequence[int] | None  # of each image; None if they are before the pixels
    images: int


class Cifar(Source):
    """The images of some files, each of which becomes a PNG when it is read."""

    def __init__(
        self,
        kind: str,
        where: str,
        files: dict[str, Blob],
        version: _Version,
        close: Callable[[], None],
    ) -> None:
        self.kind = kind
        self.where = where
        self._files = files
        self._version = version
        self._close = close

    def scan(self, notes: Notes) -> Iterator[Image]:
        blob = self._files[self._version.names]
        if self._version.head:
            text = blob.read(0, blob.size).decode("utf-8", "replace")
            found = [line.strip() for line in text.splitlines() if line.strip()]
        else:
            found = _pickled(blob).texts.get(self._version.names_key, [])
        if len(found) != len(set(found)) or not found:
            raise InputError(f"{blob.where}: names no classes, or one twice; download it again")
        classes = [class_name_in(name, blob.where) for name in found]
        names = self._version.training if self.kind == KINDS[0] else self._version.test
        for place, name in enumerate(names):
            blob = self._files[name]
            batch = _layout(blob, self._version)
            notes.share = place / len(names)
            for number, (label, checksum) in enumerate(_labels(blob, batch)):
                if label >= len(classes):
                    raise InputError(
                        f"{blob.where}: image {number} has the label {label}, and "
                        f"{self._version.names} names {len(classes)} classes; download it again"
                    )
                offset = batch.start + number * batch.step
                yield Image(classes[label], f"{name}/{number:05}.png", offset, _PIXELS, checksum)

    def read(self, name: str, offset: int, size: int) -> bytes:
        blob = self._files.get(name.partition("/")[0])
        pixels = b"" if blob is None else blob.read(offset, size)
        if len(pixels) != _PIXELS:
            raise changed(self.where, f"{name} is not at byte {offset}")
        return _png(pixels)

    def close(self) -> None:
        self._close()


def may_be(names: Iterable[str]) -> bool:
    """Whether files of these names are any version, so that they are worth opening."""
    found = set(names)
    return any({*one.training, *one.test, one.names} <= found for one in _VERSIONS)


def open_cifar(where: str, files: Mapping[str, Blob], close: Callable[[], None]) -> Source:
    """Opens the training images of any version, of which `files` has all by name."""
    version, names = next(
        (one, names)
        for one in _VERSIONS
        if {*(names := (*one.training, *one.test, one.names))} <= files.keys()
    )
    found = {name: files[name] for name in names}
    training, test = (Cifar(kind, where, found, version, close) for kind in KINDS)
    training.own_validation = partial(Validation, test, None)
    training.said = "cifar: the labels of its files; validation: the test images"
    return training


def open_planned(
    planned: Fields, where: str, folders: Sequence[str], open_in: Callable[[str], Source]
) -> Source:
    """Opens the training images for pack, or the test images beside them if a plan says so.

    Raises:
        InputError: not one of the folders has all files of a version any more.
    """
    kind = planned.text("kind")
    if len(folders) != 1:
        raise changed(where, f"is no {kind}")
    training = open_in(folders[0])
    validation = None if training.own_validation is None else training.own_validation()
    return validation.source if kind == KINDS[1] and validation is not None else training


def _layout(blob: Blob, version: _Version) -> _Batch:
    if version.head:
        step = version.head + _PIXELS
        if blob.size % step or not blob.size:
            raise InputError(
                f"{blob.where}: has {blob.size} bytes, not a multiple of {step}, so it is "
                "truncated; download it again"
            )
        return _Batch(version.head, step, None, blob.size // step)
    found = _pickled(blob)
    labels = found.numbers.get(version.key, [])
    start, size = found.pixels
    if not size or size % _PIXELS or size // _PIXELS != len(labels):
        raise InputError(
            f"{blob.where}: is no batch of CIFAR: {len(labels)} labels and {size} bytes of pixels; "
            "download it again, or take the binary version"
        )
    return _Batch(start, _PIXELS, labels, len(labels))


def _labels(blob: Blob, batch: _Batch) -> Iterator[tuple[int, int]]:
    """Yields the label of each image, and a checksum of its pixels."""
    # In the binary version, the label is the byte before the pixels.
    before = batch.step - _PIXELS
    for first in range(0, batch.images, _TOGETHER):
        count = min(_TOGETHER, batch.images - first)
        start = batch.start - before + first * batch.step
        block = blob.read(start, count * batch.step)
        if len(block) != count * batch.step:
            raise InputError(f"{blob.where}: ends early; download it again")
        for number in range(count):
            place = number * batch.step + before
            checksum = zlib.crc32(block[place : place + _PIXELS])
            yield (
                block[place - 1] if batch.labels is None else batch.labels[first + number],
                checksum,
            )


class _Pickled(NamedTuple):
    """What the opcodes of a pickled dictionary show."""

    numbers: dict[str, list[int]]  # the whole numbers of each key
    texts: dict[str, list[str]]  # the strings of each key
    pixels: tuple[int, int]  # the first byte and the number of bytes of the longest string


_KEYS = frozenset(
    ("labels", "fine_labels", "coarse_labels", "data", "filenames", "batch_label", "label_names",
     "num_cases_per_batch", "num_vis", "fine_label_names", "coarse_label_names")
)  # fmt: skip


def _pickled(blob: Blob) -> _Pickled:
    """Reads the opcodes of a pickle; runs none of them."""
    if blob.size > _LARGEST_PICKLE:
        raise InputError(f"{blob.where}: is too large for a file of CIFAR; download it again")
    found = _Pickled({}, {}, (0, 0))
    key = ""
    try:
        for opcode, argument, position in pickletools.genops(io.BytesIO(blob.read(0, blob.size))):
            if opcode.name in _STRINGS:
                text = argument.decode("latin-1") if isinstance(argument, bytes) else str(argument)
                if text in _KEYS:
                    key = text
                elif key == "data" and len(text) > found.pixels[1]:
                    # The opcode and four bytes of length precede it.
                    found = found._replace(pixels=((position or 0) + 5, len(text)))
                else:
                    found.texts.setdefault(key, []).append(text)
            elif opcode.name in _NUMBERS and key != "data":
                found.numbers.setdefault(key, []).append(int(str(argument)))
    except (ValueError, UnicodeError) as error:
        raise InputError(
            f"{blob.where}: is no pickle of CIFAR ({error}); download it again, or take the "
            "binary version"
        ) from None
    return found


def _png(pixels: bytes) -> bytes:
    planes = np.frombuffer(pixels, np.uint8).reshape(3, _EDGE, _EDGE)
    rows = np.zeros((_EDGE, 1 + 3 * _EDGE), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = planes.transpose(1, 2, 0).reshape(_EDGE, -1)
    header = struct.pack(">IIBBBBB", _EDGE, _EDGE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )

"""CIFAR-10's images as JPEGs, some of them, and in the form of CIFAR-10's own archive."""

import io
import pickle
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

BATCHES = 5
_FOLDER = "cifar-10-batches-py"


class Picture(NamedTuple):
    """One image.

    Attributes:
        split: `train` or `test`.
        label: the name of its class.
        name: of its file.
        encoded: the file.
    """

    split: str
    label: str
    name: str
    encoded: bytes


def read_pictures(source: Path) -> Iterator[Picture]:
    """Yield the images of `train/CLASS/NAME` and `test/CLASS/NAME`, in a folder or a tar."""
    if source.is_dir():
        for path in sorted(source.glob("*/*/*")):
            split, label, name = path.relative_to(source).parts
            yield Picture(split, label, name, path.read_bytes())
        return
    with tarfile.open(source) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                split, label, name = Path(member.name).parts[-3:]
                yield Picture(split, label, name, content.read())


def write_some(source: Path, folder: Path, of_class: int) -> None:
    """Write the first images of each class and split into a folder of the same form."""
    written: Counter[tuple[str, str]] = Counter()
    for one in read_pictures(source):
        if written[one.split, one.label] < of_class:
            written[one.split, one.label] += 1
            path = folder / one.split / one.label / one.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(one.encoded)


def write_archive(pictures: Iterable[Picture], path: Path) -> None:
    """Write the pixels of images of 32x32 as CIFAR-10's archive for Python has them.

    It holds pickles: five of training images, one of test images, and one with the classes' names.
    """
    found = sorted(pictures, key=lambda one: (one.name, one.label))
    names = sorted({one.label for one in found})
    training = [one for one in found if one.split == "train"]
    parts = {f"data_batch_{part + 1}": training[part::BATCHES] for part in range(BATCHES)}
    parts["test_batch"] = [one for one in found if one.split == "test"]
    contents = {name: _batch(name, part, names) for name, part in parts.items()}
    contents["batches.meta"] = _pickled({"label_names": names, "num_vis": 3072})
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"{_FOLDER}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def rows(encoded: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return the pixels of an image as CIFAR-10 has them: all red ones first, then green, blue."""
    bgr = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    return np.asarray(bgr, np.uint8)[..., ::-1].transpose(2, 0, 1).reshape(-1)


def _batch(name: str, part: list[Picture], names: list[str]) -> bytes:
    return _pickled(
        {
            "batch_label": name,
            "labels": [names.index(one.label) for one in part],
            "data": np.stack([rows(one.encoded) for one in part]),
            "filenames": [one.name for one in part],
        }
    )


def _pickled(content: dict[str, object]) -> bytes:
    # With this protocol, pixels are one string of bytes, as in CIFAR-10's own files.
    return pickle.dumps(content, protocol=3)

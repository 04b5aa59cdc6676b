"""CIFAR-10 and CIFAR-100 with a few images, in the binary and the Python version."""

import struct
from collections.abc import Mapping

from support.pictures import pixels

NAMES = ("airplane", "ship", "truck")
# Of each file, the labels of its images.
LABELS = {f"data_batch_{number}": (number % 3, 2, 0) for number in range(1, 6)}
TEST = (1, 2, 0, 1)


def planes(seed: int) -> bytes:
    """The pixels of an image, all red ones first."""
    return pixels(seed, 32, 32).transpose(2, 0, 1).tobytes()


def seeds(name: str, labels: tuple[int, ...]) -> list[int]:
    start = 100 * (int(name[-1]) if name[-1].isdigit() else 9)
    return list(range(start, start + len(labels)))


def binary(name: str, labels: tuple[int, ...], head: bytes = b"") -> bytes:
    return b"".join(
        head + bytes((label,)) + planes(seed)
        for seed, label in zip(seeds(name, labels), labels, strict=True)
    )


def text(value: str | bytes) -> bytes:
    """A string as Python 2 pickled it."""
    raw = value.encode() if isinstance(value, str) else value
    if len(raw) < 256:
        return b"U" + bytes((len(raw),)) + raw
    return b"T" + struct.pack("<I", len(raw)) + raw


def pickled(name: str, labels: tuple[int, ...], key: str) -> bytes:
    """A batch with the opcodes that are in the real ones (protocol 2 of Python 2)."""
    data = b"".join(planes(seed) for seed in seeds(name, labels))
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
        + b"K" + bytes((len(labels),)) + b"M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R\x89"
        + text(data) + b"tb"
    )  # fmt: skip
    listed = b"](" + b"".join(b"K" + bytes((label,)) for label in labels) + b"e"
    files = b"](" + b"".join(text(f"{n}.png") for n in range(len(labels))) + b"e"
    entries = (
        text("batch_label") + text("training batch 1 of 5") + text(key) + listed
        + text("data") + array + text("filenames") + files
    )  # fmt: skip
    return b"\x80\x02}(" + entries + b"u."


def meta(key: str) -> bytes:
    listed = b"](" + b"".join(map(text, NAMES)) + b"e"
    return b"\x80\x02}(" + text(key) + listed + text("num_vis") + b"M\x00\x0cu."


def hundred(labels: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(label for one in labels.values() for label in one)


VERSIONS: dict[str, dict[str, bytes]] = {
    "cifar-10-batches-bin": {
        **{f"{name}.bin": binary(name, labels) for name, labels in LABELS.items()},
        "test_batch.bin": binary("test", TEST),
        "batches.meta.txt": "".join(f"{name}\n" for name in NAMES).encode() + b"\n",
        "readme.html": b"",
    },
    "cifar-100-binary": {
        "train.bin": binary("data_batch_1", hundred(LABELS), head=b"\x07"),
        "test.bin": binary("test", TEST, head=b"\x07"),
        "coarse_label_names.txt": b"vehicles\n",
        "fine_label_names.txt": "".join(f"{name}\n" for name in NAMES).encode(),
    },
    "cifar-10-batches-py": {
        **{name: pickled(name, labels, "labels") for name, labels in LABELS.items()},
        "test_batch": pickled("test", TEST, "labels"),
        "batches.meta": meta("label_names"),
    },
    "cifar-100-python": {
        "train": pickled("data_batch_1", hundred(LABELS), "fine_labels"),
        "test": pickled("test", TEST, "fine_labels"),
        "meta": meta("fine_label_names"),
    },
}

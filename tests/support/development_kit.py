"""ILSVRC2012's development kit, small: its numbers, words and labels."""

import io
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.io import savemat  # type: ignore[import-untyped]

FOLDER = "ILSVRC2012_devkit_t12/data"
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
META = "meta.mat"

# What people call the classes of `image_trees` and of the archives; 1001 is a class above others.
WORDS = {"n01": "tench, Tinca tinca", "n02": "goldfish", "n03": "great white shark"}
IDS = {1: "n02", 490: "n03", 1000: "n01", 1001: "n77"}


def meta(
    ids: Mapping[int, str] = IDS, words: Mapping[str, str] = WORDS, *, compressed: bool = True
) -> bytes:
    """meta.mat, with fields that nobody needs before and between."""
    fields = ("gloss", "ILSVRC2012_ID", "children", "WNID", "words")
    synsets = np.empty((len(ids), 1), dtype=[(name, "O") for name in fields])
    for row, (number, name) in enumerate(ids.items()):
        called = words.get(name, f"words of {name}")
        synsets[row, 0] = (f"gloss of {name}", float(number), np.zeros((1, row)), name, called)
    content = io.BytesIO()
    savemat(content, {"other": 1, "synsets": synsets}, do_compression=compressed)
    return content.getvalue()


def kit(numbers: Sequence[int], ids: Mapping[int, str] = IDS) -> dict[str, bytes]:
    """The files of the kit that preparation reads.

    Args:
        numbers: the label of each validation image, in the order of their names.
        ids: the class of each number.
    """
    labels = "".join(f"{number}\n" for number in numbers)
    return {GROUND_TRUTH: labels.encode(), META: meta(ids)}


def unpacked(numbers: Sequence[int]) -> dict[str, bytes]:
    """The same files where the unpacked kit has them."""
    return {f"{FOLDER}/{name}": content for name, content in kit(numbers).items()}

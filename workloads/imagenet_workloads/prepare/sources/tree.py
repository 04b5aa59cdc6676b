"""Finds the training and the validation images in a tree that holds both, by its names.

Such trees are torchvision's (`train` and `val`, each with class folders), Kaggle's ILSVRC, whose
validation images are in LOC_val_solution.csv, and Tiny ImageNet, with val/val_annotations.txt.
Folders and archives alike give a `Listing`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from imagenet_workloads.prepare.sources import matlab
from imagenet_workloads.prepare.sources.label_file import LabelFile
from imagenet_workloads.prepare.sources.layout import TRAINING, VALIDATION

# Where Kaggle's ILSVRC has its splits.
_KAGGLE = ("ILSVRC", "Data", "CLS-LOC")
# The labels of ILSVRC2012's development kit; their folder has its words.
_KIT_FILES = (
    "ILSVRC2012_validation_ground_truth.txt",
    "data/ILSVRC2012_validation_ground_truth.txt",
    "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt",
)
LABEL_FILES = ("LOC_val_solution.csv", *_KIT_FILES)
WORDS_FILES = ("LOC_synset_mapping.txt", "words.txt")
# Tiny ImageNet's, in its folder of validation images.
ANNOTATIONS = "val_annotations.txt"
LABEL_FILE_NAMES = frozenset(
    (
        *(name.rpartition("/")[2] for name in LABEL_FILES),
        *WORDS_FILES,
        ANNOTATIONS,
        matlab.FILE_NAME,
    )
)
UNLABELLED = (
    "its images are in no class folders, and their label file is missing; put "
    f"{LABEL_FILES[0]} above them, or write a label file by --validation-labels "
    "(validation.labels), and these images by --validation-source (validation.path)"
)
# The folders above a tree's splits.
_DEEPEST = 8


class Listing(Protocol):
    """The names in a tree; a path is from its root, "" the root itself."""

    def folders(self, path: str) -> Sequence[str]:
        """The sorted names of the folders in a folder, without hidden ones."""

    def file(self, path: str) -> LabelFile | None:
        """A file of labels; None if there is none."""


class Tree(NamedTuple):
    """A tree with both splits.

    Attributes:
        training: the folder of the training classes.
        validation: the folder of the validation images.
        labels: their label file; None if their folders are their classes.
        words: the file with the words of the classes; None without.
        has_classes: whether the validation images are in class folders.
    """

    training: str
    validation: str
    labels: LabelFile | None
    words: LabelFile | None
    has_classes: bool


def find(listing: Listing, root: str = "") -> Tree | None:
    """The tree at or below a folder; None if its folders are no splits."""
    path = root
    for _ in range(_DEEPEST):
        names = listing.folders(path)
        splits = _splits(listing, path, names)
        if splits is not None:
            return _tree(listing, *splits)
        below = _only(names)
        if below is None:
            return None
        path = join(path, below)
    return None


def kit_words(listing: Listing, folder: str) -> LabelFile | None:
    """The file of words of a development kit above a folder, or in the root.

    Another file may have the name of the kit's, so the kit's labels must be beside it.
    """
    for path in _paths_above(folder, _KIT_FILES):
        if listing.file(path) is not None:
            return listing.file(join(path.rpartition("/")[0], matlab.FILE_NAME))
    return None


def kaggle_root(parts: Sequence[str]) -> int:
    """How many last parts of a path are folders of Kaggle's tree, such as 2 for ILSVRC/Data."""
    for count in range(len(_KAGGLE), 0, -1):
        if tuple(parts[-count:]) == _KAGGLE[:count]:
            return count
    return 0


def join(*parts: str) -> str:
    """A path of parts, of which any may be empty."""
    return "/".join(part for part in parts if part)


def _only(names: Sequence[str]) -> str | None:
    """The one folder in which a tree may be deeper."""
    if len(names) == 1:
        return names[0]
    return next((name for name in _KAGGLE if name in names), None)


def _splits(listing: Listing, path: str, names: Sequence[str]) -> tuple[str, str] | None:
    """The folders of both splits, if a folder holds one of each."""
    training = [name for name in names if name.lower() in TRAINING]
    validation = [name for name in names if name.lower() in VALIDATION]
    if len(training) != 1 or len(validation) != 1:
        return None
    found = join(path, training[0])
    # A network may learn to know trains: then this folder holds images.
    if not listing.folders(found):
        return None
    return found, join(path, validation[0])


def _tree(listing: Listing, training: str, validation: str) -> Tree:
    words = _above(listing, validation, WORDS_FILES) or kit_words(listing, validation)
    labels = listing.file(join(validation, ANNOTATIONS))
    folders = listing.folders(validation)
    if labels is not None:
        # Its images are in one folder, beside the label file.
        below = folders[0] if len(folders) == 1 else ""
        return Tree(training, join(validation, below), labels, words, has_classes=False)
    if folders:
        return Tree(training, validation, None, words, has_classes=True)
    labels = _above(listing, validation, LABEL_FILES)
    return Tree(training, validation, labels, words, has_classes=False)


def _above(listing: Listing, folder: str, names: Sequence[str]) -> LabelFile | None:
    """The file of one of these names in a folder above another, the nearest first."""
    return next(filter(None, map(listing.file, _paths_above(folder, names))), None)


def _paths_above(folder: str, names: Sequence[str]) -> Iterator[str]:
    """These names in each folder above another, the nearest first."""
    parts = folder.split("/")[:-1]
    for count in range(len(parts), -1, -1):
        for name in names:
            yield join(*parts[:count], name)

"""The files of labels and words that public data sets have beside their images, by their names.

Kaggle's ILSVRC has LOC_val_solution.csv above its splits, Tiny ImageNet val_annotations.txt among
its validation images, and image-net.org a development kit.
"""

from collections.abc import Callable, Iterator, Sequence

from imagenet_workloads.prepare.entry_names import join
from imagenet_workloads.prepare.sources import matlab
from imagenet_workloads.prepare.stores.blob import LabelFile

_IMAGES, _BOXES = ("Data", "CLS-LOC"), ("Annotations", "CLS-LOC")


def annotations_folder(training: str) -> str | None:
    """The folder with the annotations of a tree; None if it is not Kaggle's.

    Args:
        training: the folder of the training images.
    """
    *above, data, task, _ = ("", "", *training.split("/"))
    return "/".join((*above[2:], *_BOXES)) if (data, task) == _IMAGES else None


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
    f"{LABEL_FILES[0]} or {_KIT_FILES[0]} above them, or write a label file by --validation-labels "
    "(validation.labels), and these images by --validation-source (validation.path)"
)

OpenFile = Callable[[str], LabelFile | None]
"""Opens a file of a source by its path; None if there is none."""


def words(file: OpenFile, folder: str) -> LabelFile | None:
    """The file of words above a folder: one of WORDS_FILES, else that of a development kit."""
    return above(file, folder, WORDS_FILES) or _kit_words(file, folder)


def _kit_words(file: OpenFile, folder: str) -> LabelFile | None:
    """The file of words of a development kit above a folder, or in the root.

    Another file may have the name of the kit's, so the kit's labels must be beside it.
    """
    for path in _paths_above(folder, _KIT_FILES):
        if file(path) is not None:
            return file(join(path.rpartition("/")[0], matlab.FILE_NAME))
    return None


def is_of_kit(labels: LabelFile) -> bool:
    """Whether a label file is that of the development kit."""
    return str(labels).endswith(_KIT_FILES[0])


def kaggle_root(parts: Sequence[str]) -> int:
    """How many last parts of a path are folders of Kaggle's tree, such as 2 for ILSVRC/Data."""
    for count in range(len(_KAGGLE), 0, -1):
        if tuple(parts[-count:]) == _KAGGLE[:count]:
            return count
    return 0


def above(file: OpenFile, folder: str, names: Sequence[str]) -> LabelFile | None:
    """The file of one of these names in a folder above another, the nearest first."""
    return next(filter(None, map(file, _paths_above(folder, names))), None)


def _paths_above(folder: str, names: Sequence[str]) -> Iterator[str]:
    """These names in each folder above another, the nearest first."""
    parts = folder.split("/")[:-1]
    for count in range(len(parts), -1, -1):
        for name in names:
            yield join(*parts[:count], name)

"""Decides which folders are classes: those in the source's root, in folders and archives alike.

Images may be deeper in a class. A root that is one level too high, such as one with `train` and
`val` or Kaggle's ILSVRC, would train a network on splits. It is refused with the path to write.
"""

import re
from collections import Counter
from collections.abc import Iterable

# Names of splits. One alone may be a class: CIFAR-100 has trains.
TRAINING = frozenset(("train", "training"))
VALIDATION = frozenset(("val", "valid", "validation", "dev", "eval"))
SPLITS = TRAINING | VALIDATION | {"test", "testing"}
# The number of folders that are examined.
MOST_FOLDERS = 50_000

_WORDS = re.compile(r"[^-_./]+")


def by_split(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The files with training images and those with validation images.

    A file is of the split in its path, as in x-train-00.tar or train/00.parquet. Without training
    files, those without a split are of training, else all.

    Args:
        names: paths of the files, in order.
    """
    of_split: dict[str, list[str]] = {}
    for name in names:
        words = (word.lower() for word in _WORDS.findall(name))
        of_split.setdefault(next((word for word in words if word in SPLITS), ""), []).append(name)
    training, validation = (
        [name for split in sorted(of_split) if split in one for name in of_split[split]]
        for one in (TRAINING, VALIDATION)
    )
    every = [name for of_one in of_split.values() for name in of_one]
    return training or of_split.get("", every), validation


class Layout:
    """The folders of a scan that hold images, as paths from the source's root."""

    def __init__(self) -> None:
        self._folders: dict[str, None] = {}

    def add(self, folder: str) -> None:
        """Adds a folder with an image in it."""
        if len(self._folders) < MOST_FOLDERS:
            self._folders[folder] = None

    @property
    def has_images(self) -> bool:
        """Whether any folder holds an image."""
        return bool(self._folders)

    def mistake(self) -> tuple[str, str] | None:
        """The mistake in the classes, and the folder to use as the root ("" for none)."""
        classes = dict.fromkeys(folder.partition("/")[0] for folder in self._folders)
        deeper = {folder.partition("/")[0] for folder in self._folders if "/" in folder}
        splits = [name for name in classes if name.lower() in SPLITS]
        if len(splits) > 1 and (len(splits) == len(classes) or deeper & set(splits)):
            return f"{', '.join(splits)} are splits, not classes", self._root()
        if len(classes) == 1 and deeper and len(self._folders) > 1:
            return f"its classes are deeper, in {next(iter(classes))}", self._root()
        return None

    def mistake_without_root(self) -> tuple[str, str] | None:
        """The same for an archive without a given root.

        Folders above the classes are ignored if one folder holds all classes.
        """
        parents = {folder.rpartition("/")[0] for folder in self._folders}
        if len(parents) > 1:
            first, second, *_ = sorted(parents)
            where = f"{first or 'its root'} and {second}"
            return f"its classes are in several folders, such as {where}", self._root()
        names = [folder.rpartition("/")[2] for folder in self._folders]
        if len(names) > 1 and all(name.lower() in SPLITS for name in names):
            return f"{', '.join(names)} are splits, not classes", ""
        return None

    def training(self) -> str | None:
        """The folder with the name of the training split."""
        return next((name for name in self._folders if name.lower() in TRAINING), None)

    def _root(self) -> str:
        """The folder of the training images, else the one that holds most classes."""
        for folder in self._folders:
            parts = folder.split("/")
            for depth, part in enumerate(parts[:-1], 1):
                if part.lower() in TRAINING:
                    return "/".join(parts[:depth])
        parents = Counter(folder.rpartition("/")[0] for folder in self._folders)
        likeliest, _ = parents.most_common(1)[0]
        return likeliest

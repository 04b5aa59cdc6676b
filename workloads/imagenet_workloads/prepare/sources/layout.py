"""Which folders are classes: the folders of a source's root, one rule for folders and archives.

Images may lie deeper in a class. What lies one level too high, as `train` and `val` beside each
other or Kaggle's ILSVRC, would train a network on splits: it is refused with the path to write.
"""

from collections import Counter

# Names of splits. One alone may be a class: CIFAR-100 has trains.
_SPLITS = frozenset(
    ("train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval")
)
_TRAINING = frozenset(("train", "training"))
# Folders that are looked at; so many tell enough.
_MOST = 50_000


class Layout:
    """The folders of a scan that hold images, as paths from the source's root."""

    def __init__(self) -> None:
        self._folders: dict[str, None] = {}

    def add(self, folder: str) -> None:
        """Takes down a folder with an image in it."""
        if len(self._folders) < _MOST:
            self._folders[folder] = None

    @property
    def has_images(self) -> bool:
        """Whether any folder holds an image."""
        return bool(self._folders)

    def mistake(self) -> tuple[str, str] | None:
        """What is wrong with the classes, and the folder to take for the root ("" for none)."""
        classes = dict.fromkeys(folder.partition("/")[0] for folder in self._folders)
        deeper = {folder.partition("/")[0] for folder in self._folders if "/" in folder}
        splits = [name for name in classes if name.lower() in _SPLITS]
        if len(splits) > 1 and (len(splits) == len(classes) or deeper & set(splits)):
            return f"{', '.join(splits)} are splits and no classes", self._root()
        if len(classes) == 1 and deeper and len(self._folders) > 1:
            return f"its classes lie deeper, in {next(iter(classes))}", self._root()
        return None

    def mistake_without_root(self) -> tuple[str, str] | None:
        """The same for an archive of which nobody has said where its root is.

        Folders above the classes do not matter if all classes lie in one of them.
        """
        parents = {folder.rpartition("/")[0] for folder in self._folders}
        if len(parents) > 1:
            first, second, *_ = sorted(parents)
            where = f"{first or 'its root'} and {second}"
            return f"its classes lie in several folders, such as {where}", self._root()
        names = [folder.rpartition("/")[2] for folder in self._folders]
        if len(names) > 1 and all(name.lower() in _SPLITS for name in names):
            return f"{', '.join(names)} are splits and no classes", ""
        return None

    def training(self) -> str | None:
        """A folder that is named as the split of the training images."""
        return next((name for name in self._folders if name.lower() in _TRAINING), None)

    def _root(self) -> str:
        """The folder of the training images, else the one that holds most classes."""
        for folder in self._folders:
            parts = folder.split("/")
            for depth, part in enumerate(parts[:-1], 1):
                if part.lower() in _TRAINING:
                    return "/".join(parts[:depth])
        parents = Counter(folder.rpartition("/")[0] for folder in self._folders)
        likeliest, _ = parents.most_common(1)[0]
        return likeliest

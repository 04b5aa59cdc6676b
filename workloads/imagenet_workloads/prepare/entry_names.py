"""What the names of files and folders say, wherever these lie: one rule for all containers.

A name may be that of an image, of something hidden, of a table of labels, or of a split. A word
names a split if it is all of a name, or the last word before the number in the name of an archive
or Parquet file, or if a sibling has the same name with another split's word.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

# The formats of OpenCV, libjpeg and libheif. Other files are ignored and counted.
IMAGE_SUFFIXES = frozenset(
    (".jpeg", ".jpg", ".jpe", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".heic", ".heif")
)
# Entries of a file system that are not the user's data, besides those that begin with a dot.
_SYSTEM = (
    "lost+found", "__MACOSX", "$RECYCLE.BIN", "System Volume Information", "@eaDir", "#recycle",
)  # fmt: skip
# A part that begins with a dot, and is not the dot alone, or is one of these.
_HIDDEN = re.compile(rf"(?:^|/)(?:\.[^/]|(?:{'|'.join(map(re.escape, _SYSTEM))})(?:/|\Z))")
# The suffixes of files that may be tables of labels.
TABLES = (".csv", ".tsv", ".txt", ".jsonl", ".json", ".mat")
TRAINING, VALIDATION, TEST, UNLABELLED = "training", "validation", "test", "unlabelled"
_SPLITS = {
    **dict.fromkeys(("train", "training", "trn"), TRAINING),
    **dict.fromkeys(("validation", "valid", "val", "dev"), VALIDATION),
    **dict.fromkeys(("test", "testing", "tst", "eval", "evaluation", "holdout"), TEST),
    **dict.fromkeys(("pred", "predict", "prediction", "predictions"), UNLABELLED),
    **dict.fromkeys(("unlabeled", "unlabelled", "unlabel", "unsup", "unsupervised"), UNLABELLED),
}
# Beside a split's word, these say nothing.
_FILLERS = frozenset((
    "set", "sets", "data", "dataset", "datasets", "image", "images", "img", "imgs", "jpg", "jpeg",
    "jpegs", "split", "picture", "pictures", "photos", "folder",
))  # fmt: skip
_ARCHIVE = re.compile(r"\.(?:tar|zip|parquet|tgz|tbz2|txz|tzst|tar\.[a-z0-9]+)$")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[^\W\d_]+")
# The number of a file, as 0001, 00000-of-00002, or 00000-of-00001-ab12cd34.
_NUMBER = re.compile(r"(?:[-_.]?\d+(?:[-_]of[-_]\d+)?(?:-[0-9a-f]{8,16})?)?$")


def is_image(name: str) -> bool:
    """Whether a path's last part is an image's name; that of a hidden file is not."""
    stem, dot, suffix = name.rpartition(".")
    if f"{dot}{suffix.lower()}" not in IMAGE_SUFFIXES:
        return False
    base = stem.rpartition("/")[2]
    return base != "" and base[0] != "."


def is_hidden(path: str) -> bool:
    """Whether a part of a path is a hidden name, or one of a system's own."""
    return _HIDDEN.search(path) is not None


def join(*parts: str) -> str:
    """A path of parts, of which any may be empty."""
    return "/".join(part for part in parts if part)


def words(name: str) -> list[str]:
    """The words of a name in lower case, cut at punctuation, digits and changes of case.

    >>> words("trainingSet_2019"), words("seg-pred.X1"), words("TESTImages")
    (['training', 'set'], ['seg', 'pred', 'x'], ['test', 'images'])
    """
    return [_unjoined(word.lower()) for word in _WORD.findall(name)]


def _unjoined(word: str) -> str:
    """A split's word without the filler that is written into it, as in trainset."""
    for filler in ("set", "data", "images", "imgs"):
        for rest in (word.removesuffix(filler), word.removeprefix(filler)):
            if rest != word and rest in _SPLITS:
                return rest
    return word


def split_of(name: str) -> str:
    """The split that a whole name is a word of, besides fillers and numbers; empty for none.

    >>> split_of("test_set"), split_of("val2017"), split_of("train_val2019"), split_of("trains")
    ('test', 'validation', '', '')
    """
    found = [word for word in words(name) if word not in _FILLERS]
    return _SPLITS.get(found[0], "") if len(found) == 1 else ""


def split_of_file(name: str) -> str:
    """The split of an archive or Parquet file: the last word before its number; empty for none.

    >>> split_of_file("imagenet-dev-train-0.tar"), split_of_file("train-00000-of-00002.parquet")
    ('training', 'training')
    >>> split_of_file("x.tar"), split_of_file("test-multiple.tar")
    ('', '')
    """
    stem = _ARCHIVE.sub("", name)
    found = words(_NUMBER.sub("", stem))
    while len(found) > 1 and found[-1] in _FILLERS:
        found.pop()
    return _SPLITS.get(found[-1], "") if found else ""


def splits(names: Iterable[str]) -> Mapping[str, str]:
    """The split of each of some siblings; empty for one that names none.

    >>> splits(["seg_train", "seg_test", "seg_pred", "papers"])
    {'seg_train': 'training', 'seg_test': 'test', 'seg_pred': 'unlabelled', 'papers': ''}
    >>> splits(["cars_train", "dogs_test"])
    {'cars_train': '', 'dogs_test': ''}
    """
    every = list(names)
    found = {
        name: split_of(_ARCHIVE.sub("", name))
        or (split_of_file(name) if _ARCHIVE.search(name) else "")
        for name in every
    }
    by_frame: dict[Sequence[str], dict[str, str]] = {}
    for name in every:
        one = words(_ARCHIVE.sub("", name))
        places = [place for place, word in enumerate(one) if word in _SPLITS]
        if len(places) == 1:
            frame = (*one[: places[0]], "", *one[places[0] + 1 :])
            by_frame.setdefault(frame, {})[name] = _SPLITS[one[places[0]]]
    for siblings in by_frame.values():
        if len(set(siblings.values())) > 1:
            found.update({name: split for name, split in siblings.items() if not found[name]})
    return found


def splits_of_paths(paths: Iterable[str]) -> Mapping[str, str]:
    """The split of each archive or Parquet file by its path; empty for one that names none.

    The last part decides, else the nearest folder whose whole name does.

    >>> splits_of_paths(["train/0.parquet", "val/0.parquet", "x-train-0.parquet"])
    {'train/0.parquet': 'training', 'val/0.parquet': 'validation', 'x-train-0.parquet': 'training'}
    """
    every = list(paths)
    by_base = splits(dict.fromkeys(path.rpartition("/")[2] for path in every))
    found = {}
    for path in every:
        *folders, base = path.split("/")
        of_folders = (split_of(folder) for folder in reversed(folders))
        found[path] = by_base[base] or next(filter(None, of_folders), "")
    return found

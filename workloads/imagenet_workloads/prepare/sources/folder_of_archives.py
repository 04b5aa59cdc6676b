"""A folder of archives on a volume: of a class each, or one for training and one for validation.

One archive a split is ILSVRC2012 as image-net.org gives it, with its development kit.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources import archives, compressed_names, parquet, webdataset
from imagenet_workloads.prepare.sources import tree as trees
from imagenet_workloads.prepare.sources.archive_layouts import FORMATS
from imagenet_workloads.prepare.sources.archive_set import ArchiveSet
from imagenet_workloads.prepare.sources.decided import DecidedSource
from imagenet_workloads.prepare.sources.decompressed import decompressed
from imagenet_workloads.prepare.sources.folder import FolderListing
from imagenet_workloads.prepare.sources.folder_of_files import FilesOfFolder
from imagenet_workloads.prepare.sources.label_file import FileOnVolume, LabelFile
from imagenet_workloads.prepare.sources.layouts import choice as choices
from imagenet_workloads.prepare.sources.layouts import words
from imagenet_workloads.prepare.sources.layouts.choice import Choice
from imagenet_workloads.prepare.sources.layouts.survey import is_hidden
from imagenet_workloads.prepare.sources.links import require_inside
from imagenet_workloads.prepare.sources.source import (
    Blob,
    Source,
    Validation,
    is_image,
    readable,
)

_KIT = "ILSVRC2012_devkit"
# Archives may lie in folders of their splits.
_DEEPEST = 3

OpenFile = Callable[[Path], Blob]


def open_folder_of_archives(
    root: Path, open_file: OpenFile, scratch: Path | None = None, choice: Choice | None = None
) -> Source | None:
    """Opens the archives of a folder; None if it has images in folders, or no archives.

    Args:
        root: the folder.
        open_file: opens a file there.
        scratch: a folder for the contents of compressed tars; None passes these over.
        choice: what the user wrote of the layout.

    Raises:
        InputError: its archives are of several kinds, or a tar is there twice.
    """
    if _has_images_in_folders(root):
        # Class folders count, whatever is left over beside them.
        return None
    choice = choice or Choice()
    below, others = _files_below(root)
    if any(name.endswith(parquet.SUFFIX) for name in others):
        return None
    compressed = [name for name in others if compressed_names.is_compressed_tar(name)]
    listed = sorted([*below, *(compressed if scratch is not None else ())])
    files = sorted(compressed_names.by_plain_name(listed, str(root)))
    if not files:
        return None
    splits = _splits(listed)
    open_split = open_file if scratch is None else partial(_open_content, open_file, scratch)
    if splits and not choice.has_splits and choice.layout != choices.CLASS_FOLDERS:
        with closing(open_split(root / splits[words.TRAINING])) as file:
            is_shard = webdataset.is_shard(file)
        if not is_shard:
            return _open_splits(root, splits, open_split, choice)
    found = FilesOfFolder(root, files, open_file, scratch)
    beside = sorted(set(others) - {*listed})
    return DecidedSource(ArchiveSet(found, files, others=beside), choice)


def _open_content(open_file: OpenFile, scratch: Path, path: Path) -> Blob:
    return decompressed(open_file(path), scratch)


def open_file_of(
    root: Path, file: str, is_flat: bool, open_file: OpenFile, choice: Choice | None = None
) -> Source:
    """Opens the archive of a split for index.

    Args:
        root: what the option names.
        file: its name there.
        is_flat: whether a label file has the classes.
        open_file: opens a file.
        choice: what the user wrote of the layout.

    Raises:
        InputError: a link leads out of the root.
    """
    require_inside(str(root / file), str(root))
    blob = open_file(root / file)
    source = (
        archives.open_flat_archive(blob) if is_flat else archives.open_archive(blob, choice=choice)
    )
    source.plan_fields = {"file": file}
    return source


def _walk(root: Path, deepest: int) -> Iterator[tuple[str, list[str]]]:
    """Yields the path of each folder from a root, and the sorted names of its files."""
    folders = [""]
    while folders:
        folder = folders.pop()
        names, below = [], []
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    if not entry.is_dir():
                        names.append(entry.name)
                    elif not is_hidden(entry.name) and not entry.name.startswith(_KIT):
                        # A link may lead to a folder that is read anyway.
                        below += [] if entry.is_symlink() else [trees.join(folder, entry.name)]
        except OSError:
            # The scan of its folders says why.
            continue
        yield folder, sorted(names)
        if folder.count("/") + bool(folder) < deepest:
            folders += sorted(below, reverse=True)


def _has_images_in_folders(root: Path) -> bool:
    """Whether an image lies in a folder below the root; reads no further than the first one."""
    return any(folder and any(map(is_image, names)) for folder, names in _walk(root, sys.maxsize))


def _files_below(root: Path) -> tuple[list[str], list[str]]:
    """The paths of the archives in a folder and its folders, and those of other files."""
    paths = [trees.join(folder, name) for folder, names in _walk(root, _DEEPEST) for name in names]
    found = [
        path
        for path in paths
        if path.endswith(tuple(FORMATS)) and not path.rpartition("/")[2].startswith(".")
    ]
    return found, [path for path in paths if path not in {*found}]


def _splits(names: list[str]) -> Mapping[str, str]:
    """The archive of each split; none unless training images and others are in one each."""
    found: dict[str, str] = {}
    of = words.splits([name for name in names if "/" not in name])
    for name, split in of.items():
        if not split or split in found:
            return {}
        found[split] = name
    is_split = words.TRAINING in found and len(found) > 1 and len(of) == len(names)
    return found if is_split else {}


def _open_splits(
    root: Path, splits: Mapping[str, str], open_file: OpenFile, choice: Choice
) -> Source:
    """Opens an archive of training images, with the validation images in another one."""
    training = splits[words.TRAINING]
    source = open_file_of(root, training, is_flat=False, open_file=open_file, choice=choice)
    validation = splits.get(words.VALIDATION) or splits.get(words.TEST)
    if validation is not None:
        is_test = words.VALIDATION not in splits
        source.own_validation = partial(_open_validation, root, validation, open_file, is_test)
    source.own_words = _words(root)
    return source


def _words(root: Path) -> LabelFile | None:
    """The file of words beside the archives, else that of the development kit."""
    found = (root / name for name in trees.WORDS_FILES)
    path = next((one for one in found if one.is_file()), None)
    return trees.words(FolderListing(root).file, "") if path is None else FileOnVolume(path)


def _open_validation(
    root: Path, file: str, open_file: OpenFile, is_test: bool
) -> Validation | None:
    """The validation archive, with a label file beside it, else with class folders in it."""
    found = (root / name for name in trees.LABEL_FILES)
    labels = next((path for path in found if path.is_file()), None)
    if labels is not None and not is_test:
        require_inside(str(labels), str(root))
        source = open_file_of(root, file, is_flat=True, open_file=open_file)
        return Validation(source, labels)
    choice = choices.VALIDATION_ALONE
    source = open_file_of(root, file, is_flat=False, open_file=open_file, choice=choice)
    try:
        if isinstance(source, DecidedSource):
            source.decision  # noqa: B018
        return Validation(source, None)
    except InputError as error:
        if is_test:
            # Images of a test split without labels are no mistake.
            return None
        raise InputError(
            f"{readable(str(error))}; or put one of these label files into {root}: "
            f"{', '.join(trees.LABEL_FILES)}"
        ) from None

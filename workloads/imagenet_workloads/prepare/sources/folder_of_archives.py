"""A folder of archives: one a class, or one for training and one for validation.

One archive a class is how the R tutorial divides ImageNet, and how image-net.org gives single
classes. One archive a split is ILSVRC2012 as image-net.org gives it, with its development kit.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources import archives, webdataset
from imagenet_workloads.prepare.sources import tree as trees
from imagenet_workloads.prepare.sources.archive import Archive, holds_image, pass_over, require_data
from imagenet_workloads.prepare.sources.archive_layouts import require_uncompressed
from imagenet_workloads.prepare.sources.folder import NOT_CLASSES, names
from imagenet_workloads.prepare.sources.label_file import FileOnVolume
from imagenet_workloads.prepare.sources.layout import SPLITS, TRAINING, VALIDATION
from imagenet_workloads.prepare.sources.links import require_inside
from imagenet_workloads.prepare.sources.source import (
    Blob,
    Image,
    Notes,
    Source,
    Validation,
    changed,
    class_name_in,
    readable,
)
from imagenet_workloads.prepare.sources.tar import BLOCK, TarArchive
from imagenet_workloads.prepare.sources.zip import ZipArchive

KINDS = {
    f"folder of {archive.format}s": (f".{archive.format}", archive)
    for archive in (TarArchive, ZipArchive)
}
_ILSVRC, _KIT = "ilsvrc2012_img_", "ILSVRC2012_devkit"

OpenFile = Callable[[Path], Blob]


class FolderOfArchives(Source):
    """Each archive in a folder is a class; images may lie anywhere in it."""

    def __init__(self, kind: str, root: Path, open_file: OpenFile) -> None:
        """Opens nothing yet: a folder may hold more archives than a process may open.

        Args:
            kind: one of KINDS.
            root: the folder.
            open_file: opens a file there.
        """
        self.kind = kind
        self.where = str(root)
        self._root = root
        self._open_file = open_file
        self._suffix, self._format = KINDS[kind]

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by the name of their archive, in the order of each archive."""
        total = sum(1 for _ in names(self._root))
        for number, name in enumerate(names(self._root)):
            notes.share = min(1.0, number / total)
            if name in NOT_CLASSES:
                continue
            if name.startswith(".") or not name.endswith(self._suffix):
                notes.pass_over(name)
                continue
            class_name = class_name_in(name.removesuffix(self._suffix), self.where)
            images = 0
            for image in self._scan_class(class_name, name, notes):
                images += 1
                yield image
            if images == 0:
                notes.empty.append(class_name)

    def _scan_class(self, class_name: str, file: str, notes: Notes) -> Iterator[Image]:
        archive = self._open(file)
        try:
            # The archive of a class that was not downloaded can have 0 bytes.
            for member in archive.members() if archive.blob.size else ():
                if not holds_image(member):
                    pass_over(member, notes)
                    continue
                require_data(member, archive.blob.where)
                name = f"{file}/{member.name}"
                yield Image(class_name, name, member.offset, member.size, member.mtime)
        finally:
            archive.blob.close()

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        file, _, member = name.partition("/")
        if not (self._root / file).is_file():
            raise changed(str(self._root / file), "is gone")
        archive = self._open(file)
        try:
            return archive.read(member, offset, size)
        finally:
            archive.blob.close()

    def _open(self, file: str) -> Archive:
        path = self._root / file
        require_inside(str(path), str(self._root))
        blob = self._open_file(path)
        if self._format is TarArchive:
            require_uncompressed(blob.read(0, min(blob.size, BLOCK)), blob.where)
        return self._format(blob)


def open_folder_of_archives(root: Path, open_file: OpenFile) -> Source | None:
    """Opens the archives of a folder; None if it has folders of classes, or no archives.

    Args:
        root: the folder.
        open_file: opens a file there.

    Raises:
        InputError: its archives are of several kinds.
    """
    files, folders = _listed(root)
    splits = {_split(name): name for name in files if _split(name)}
    training = next((splits[name] for name in splits if name in TRAINING), None)
    if training is not None and webdataset.is_shard(root / training, open_file):
        training = None
    # Class folders count, whatever is left over beside them.
    if training is not None and not folders:
        return _open_splits(root, training, splits, open_file)
    if folders or not files:
        return None
    shards = webdataset.open_shards(root, files, open_file)
    if shards is not None:
        return shards
    kinds = [kind for kind, (suffix, _) in KINDS.items() if any(f.endswith(suffix) for f in files)]
    if len(kinds) > 1:
        raise InputError(f"{root}: holds tars and zips; put those of the classes into one folder")
    return FolderOfArchives(kinds[0], root, open_file)


def open_file_of(root: Path, file: str, is_flat: bool, open_file: OpenFile) -> Source:
    """Opens the archive of a split.

    Args:
        root: what the option names.
        file: its name there.
        is_flat: whether a label file has the classes.
        open_file: opens a file.

    Raises:
        InputError: a link leads out of the root, or its layout is unknown.
    """
    require_inside(str(root / file), str(root))
    blob = open_file(root / file)
    source = archives.open_flat_archive(blob) if is_flat else archives.open_archive(blob)
    source.place = {"file": file}
    return source


def _listed(root: Path) -> tuple[Sequence[str], bool]:
    """The names of the archives in a folder, and whether it has folders with classes."""
    suffixes = tuple(suffix for suffix, _ in KINDS.values())
    files, folders = [], False
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name in NOT_CLASSES:
                    continue
                if entry.is_dir():
                    folders |= not entry.name.startswith(_KIT)
                elif entry.name.endswith(suffixes):
                    files.append(entry.name)
    except OSError:
        # The scan of its folders says why.
        return (), True
    return sorted(files), folders


def _split(name: str) -> str:
    """The split that an archive is named after; empty if it is none."""
    stem = name.rpartition(".")[0].lower().removeprefix(_ILSVRC)
    return stem if stem in SPLITS else ""


def _open_splits(root: Path, training: str, splits: dict[str, str], open_file: OpenFile) -> Source:
    source = open_file_of(root, training, is_flat=False, open_file=open_file)
    validation = next((splits[name] for name in splits if name in VALIDATION), None)
    if validation is not None:
        source.own_validation = partial(_open_validation, root, validation, open_file)
    for name in trees.WORDS_FILES:
        if (root / name).is_file():
            source.own_words = FileOnVolume(root / name)
    return source


def _open_validation(root: Path, file: str, open_file: OpenFile) -> Validation:
    """The validation archive, with a label file beside it, else with class folders in it."""
    found = (root / name for name in trees.LABEL_FILES)
    labels = next((path for path in found if path.is_file()), None)
    if labels is not None:
        require_inside(str(labels), str(root))
        source = open_file_of(root, file, is_flat=True, open_file=open_file)
        return Validation(source, labels)
    try:
        return Validation(open_file_of(root, file, is_flat=False, open_file=open_file), None)
    except InputError as error:
        raise InputError(
            f"{readable(str(error))}; or put one of these label files into {root}: "
            f"{', '.join(trees.LABEL_FILES)}"
        ) from None

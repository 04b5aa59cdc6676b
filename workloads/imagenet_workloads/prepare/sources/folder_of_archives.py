"""A folder or list of archives: one a class, or one for training and one for validation.

One archive a class is how the R tutorial divides ImageNet, and how image-net.org gives single
classes. One archive a split is ILSVRC2012 as image-net.org gives it, with its development kit.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.sources import archives, compressed_names, parquet, webdataset
from imagenet_workloads.prepare.sources import tree as trees
from imagenet_workloads.prepare.sources.archive import Archive, holds_image, pass_over, require_data
from imagenet_workloads.prepare.sources.archive_layouts import require_uncompressed
from imagenet_workloads.prepare.sources.archive_set import ArchiveSet
from imagenet_workloads.prepare.sources.decompressed import decompressed
from imagenet_workloads.prepare.sources.file_set import FileSet
from imagenet_workloads.prepare.sources.folder import NOT_CLASSES, names
from imagenet_workloads.prepare.sources.folder_of_files import FilesOfFolder
from imagenet_workloads.prepare.sources.folder_tree import FolderListing
from imagenet_workloads.prepare.sources.label_file import FileOnVolume, LabelFile
from imagenet_workloads.prepare.sources.layout import SPLITS, TRAINING, VALIDATION
from imagenet_workloads.prepare.sources.links import require_inside
from imagenet_workloads.prepare.sources.source import (
    Blob,
    Image,
    Notes,
    Source,
    Validation,
    class_name_in,
    readable,
)
from imagenet_workloads.prepare.sources.tar import BLOCK, TarArchive
from imagenet_workloads.prepare.sources.zip import ZipArchive

KINDS = {
    f"folder of {archive.format}s": (f".{archive.format}", archive)
    for archive in (TarArchive, ZipArchive)
}
_SUFFIXES = tuple(suffix for suffix, _ in KINDS.values())
_ILSVRC, _KIT = "ilsvrc2012_img_", "ILSVRC2012_devkit"

OpenFile = Callable[[Path], Blob]


class FolderOfArchives(ArchiveSet):
    """Each archive is a class; images may lie anywhere in it."""

    def __init__(
        self,
        kind: str,
        files: FileSet,
        names: Sequence[str],
        others: Sequence[str] = (),
        planned: Fields | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            kind: one of KINDS.
            files: with the archives.
            names: of the archives, in order.
            others: the names of other files beside them, which are counted.
            planned: as `version` was for index; None before it.
        """
        super().__init__(files, names, planned)
        self.kind = kind
        self.where = files.where
        self._others = others
        self._suffix, self._format = KINDS[kind]

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images by the name of their archive, in the order of each archive."""
        for name in self._others:
            notes.pass_over(name)
        yield from super().scan(notes)

    def scan_archive(self, name: str, archive: Archive, notes: Notes) -> Iterator[Image]:
        """The images of a class."""
        class_name = class_name_in(name.removesuffix(self._suffix), self.where)
        images = 0
        # The archive of a class that was not downloaded can have 0 bytes.
        for member in archive.members() if archive.blob.size else ():
            if not holds_image(member):
                pass_over(member, notes)
                continue
            require_data(member, archive.blob.where)
            images += 1
            yield Image(
                class_name, f"{name}/{member.name}", member.offset, member.size, member.mtime
            )
        if images == 0:
            notes.empty.append(class_name)

    def archive_in(self, blob: Blob) -> Archive:
        """The archive of a class."""
        if self._format is TarArchive:
            require_uncompressed(blob.read(0, min(blob.size, BLOCK)), blob.where)
        return self._format(blob)


def open_classes(files: FileSet, beside: Sequence[str] = ()) -> Source:
    """Opens archives of which each is a class.

    Args:
        files: the archives.
        beside: names of other files in their folder.

    Raises:
        InputError: they are of several kinds.
    """
    kinds = [
        kind for kind, (suffix, _) in KINDS.items() if any(f.endswith(suffix) for f in files.names)
    ]
    if len(kinds) > 1:
        raise InputError(
            f"{files.where}: holds tars and zips; put those of the classes into one folder"
        )
    return FolderOfArchives(kinds[0], files, files.names, beside)


def open_folder_of_archives(
    root: Path, open_file: OpenFile, scratch: Path | None = None
) -> Source | None:
    """Opens the archives of a folder; None if it has folders of classes, or no archives.

    Args:
        root: the folder.
        open_file: opens a file there.
        scratch: a folder for the contents of compressed tars; None passes these over.

    Raises:
        InputError: its archives are of several kinds, or a tar is there twice.
    """
    listed, folders = _listed(root, scratch is not None)
    files = sorted(compressed_names.by_plain_name(listed, str(root)))
    splits = {split_of(name): name for name in listed if split_of(name)}
    training = next((splits[name] for name in splits if name in TRAINING), None)
    open_split = open_file if scratch is None else partial(_open_content, open_file, scratch)
    if training is not None:
        with closing(open_split(root / training)) as file:
            training = None if webdataset.is_shard(file) else training
    # Class folders count, whatever is left over beside them.
    if training is not None and not folders:
        return _open_splits(root, training, splits, open_split)
    if folders or not files:
        return None
    found = FilesOfFolder(root, files, open_file, scratch)
    others = {name for name in names(root) if name not in NOT_CLASSES} - {*listed}
    return webdataset.open_shards(found) or open_classes(found, sorted(others))


def _open_content(open_file: OpenFile, scratch: Path, path: Path) -> Blob:
    return decompressed(open_file(path), scratch)


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
    source.plan_fields = {"file": file}
    return source


def _listed(root: Path, takes_compressed: bool) -> tuple[Sequence[str], bool]:
    """The names of the archives in a folder, and whether it has folders with classes."""
    files, compressed, folders = [], [], False
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name in NOT_CLASSES:
                    continue
                if entry.is_dir():
                    folders |= not entry.name.startswith(_KIT)
                elif entry.name.endswith(_SUFFIXES):
                    files.append(entry.name)
                elif compressed_names.is_compressed_tar(entry.name):
                    compressed.append(entry.name)
                takes_compressed &= not entry.name.endswith(parquet.SUFFIX)
    except OSError:
        # The scan of its folders says why.
        return (), True
    return sorted([*files, *(compressed if takes_compressed else ())]), folders


def split_of(name: str) -> str:
    """The split that an archive is named after; empty if it is none."""
    plain = compressed_names.plain(name)
    stem = plain.rpartition(".")[0].lower().removeprefix(_ILSVRC)
    return stem if stem in SPLITS else ""


def _open_splits(root: Path, training: str, splits: dict[str, str], open_file: OpenFile) -> Source:
    source = open_file_of(root, training, is_flat=False, open_file=open_file)
    validation = next((splits[name] for name in splits if name in VALIDATION), None)
    if validation is not None:
        source.own_validation = partial(_open_validation, root, validation, open_file)
    source.own_words = _words(root)
    return source


def _words(root: Path) -> LabelFile | None:
    """The file of words beside the archives, else that of the development kit."""
    found = (root / name for name in trees.WORDS_FILES)
    words = next((path for path in found if path.is_file()), None)
    return trees.kit_words(FolderListing(root), "") if words is None else FileOnVolume(words)


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

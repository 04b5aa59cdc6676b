"""The kind `volume`: a folder, or an archive of any layout, in the file system.

A folder may hold images, archives, CIFAR or Parquet files. Its archives may be of a class each, of
a split each, or shards. One archive a split is ILSVRC2012 as image-net.org gives it, with its
development kit.
"""

import os
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import parquet, samples
from imagenet_workloads.prepare.containers.archives import FLAT, FORMATS, KINDS_OF_SETS, ArchiveSet
from imagenet_workloads.prepare.containers.folder import (
    FLAT_FOLDER,
    FOLDER,
    FlatFolder,
    FolderListing,
    planned_folder,
)
from imagenet_workloads.prepare.entry_names import is_hidden, is_image, join
from imagenet_workloads.prepare.layouts import choice as choices
from imagenet_workloads.prepare.layouts import cifar, devkit
from imagenet_workloads.prepare.layouts.choice import CIFAR, PARQUET, Choice
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.layouts.splits import (
    open_parquet_file,
    open_parquet_files,
    splits_of_archives,
)
from imagenet_workloads.prepare.layouts.survey import Contents
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.sources import opening
from imagenet_workloads.prepare.sources.kind import SourceKind
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.blob import Blob, changed
from imagenet_workloads.prepare.stores.compressed import decompressed
from imagenet_workloads.prepare.stores.remote import HeaderWindow
from imagenet_workloads.prepare.stores.volume import File, FilesOfFolder, require_inside, unlistable

_FLAT = (FLAT_FOLDER, *FLAT)

_VALIDATION = "--validation-source"
# Each of the threads that list archives has a window.
_WINDOW = 64 << 10
_KIT = "ILSVRC2012_devkit"
# Archives may lie in folders of their splits.
_DEEPEST = 3


def open_source(
    path: Path,
    within: str | None = None,
    scratch: Path | None = None,
    choice: Choice | None = None,
) -> Source:
    """Opens a source that contains its classes: a folder, or an archive of archives or folders.

    `within` is the folder or archive in it that holds the classes. `scratch` is a folder for the
    content of a compressed archive; None refuses these.
    """
    choice = choice or Choice()
    if not files.is_folder(path):
        with closing(File(path)) as file:
            is_parquet = parquet.is_parquet(file)
        if is_parquet:
            beside = FilesOfFolder(path.parent, (path.name,))
            return open_parquet_file(beside, within, choice)
        name = compressed.plain_name(path.name)
        return opening.open_archive(_open_blob(path, scratch), within, choice, name)
    if within is not None:
        raise InputError(f"{path}: is a folder, not an archive; write {path / within} (path)")
    found = FolderContents(path, choice)
    layout = found.layout(choice)
    if layout == choices.CIFAR:
        (folder,) = found.cifar_folders()
        return _open_cifar(path, folder)
    if layout == choices.PARQUET:
        source = open_parquet_files(FilesOfFolder(path, sorted(found.parquet)), choice)
        assert source is not None
        return source
    opened = None if found.has_folders else found.open_archives(scratch, choice)
    if opened is not None:
        return opened
    # In Kaggle's tree, files of labels may lie above the folder.
    above = devkit.kaggle_root(path.parts)
    top = path.parents[above - 1] if above else path
    return DecidedSource(
        FolderListing(top, "/".join(path.parts[len(path.parts) - above :])), choice
    )


def _open_cifar(root: Path, folder: str) -> Source:
    paths = {name: root / folder / name for name in cifar.FILES}
    found = {name: path for name, path in paths.items() if path.is_file()}
    for path in found.values():
        require_inside(str(path), str(root))
    batches = {name: File(path) for name, path in found.items()}

    def close() -> None:
        for file in batches.values():
            file.close()

    return cifar.open_cifar(str(root), batches, close)


def _open_blob(path: Path, scratch: Path | None) -> Blob:
    file: Blob = File(path)
    if path.suffix == ".tar":
        # Headers of small images are read together. A zip has all of them at its end.
        file = HeaderWindow(file, largest=_WINDOW)
    return file if scratch is None else decompressed(file, scratch)


def open_flat(path: Path, scratch: Path | None = None) -> Source:
    """Opens a source whose classes are in a label file: a flat folder or a flat archive."""
    return (
        FlatFolder(path)
        if files.is_folder(path)
        else opening.open_flat_archive(_open_blob(path, scratch))
    )


def _require(path: Path, option: str) -> None:
    """Raises an `InputError` that names the option and its field if the path does not exist."""
    # Whatever else hinders the open is reported by it.
    with suppress(OSError):
        try:
            path.lstat()
        except FileNotFoundError:
            raise InputError(f"{option}: {path}: no such file or folder") from None


class FolderContents(Contents):
    """What a folder holds, up to the first image in a folder of it unless the whole is wanted.

    The listing finds what comes after it. Class folders count, whatever is left over beside them:
    `has_folders` says whether an image lies in a folder. `others` are the paths of files that are
    none of these, where archives may be.
    """

    def __init__(self, root: Path, choice: Choice) -> None:
        super().__init__(str(root), ("--source", f"{root}/", "path"))
        self.has_folders = False
        self.others: list[str] = []
        self._root = root
        is_whole = choice.layout in (CIFAR, PARQUET)
        for folder, names in _walk(root):
            is_near = folder.count("/") + bool(folder) <= _DEEPEST
            for name in names:
                if name.startswith("."):
                    continue
                path = join(folder, name)
                archives = (*FORMATS, *compressed.SUFFIXES) if is_near else ()
                self.add(path, archives)
                self.has_folders |= bool(folder) and is_image(name)
                if is_near:
                    self.others.append(path)
            if self.has_folders and not is_whole:
                return

    def open_archives(self, scratch: Path | None, choice: Choice) -> DecidedSource | None:
        """Opens the archives; None if they are all compressed, and there is no scratch.

        Raises:
            InputError: they are of several kinds, or a tar is there twice.
        """
        listed = [
            path
            for path in sorted(self.archives)
            if path.endswith(tuple(FORMATS))
            or (scratch is not None and compressed.is_compressed_tar(path.rpartition("/")[2]))
        ]
        names = sorted(compressed.by_plain_name(listed, str(self._root)))
        if not names:
            return None
        folder = FilesOfFolder(self._root, names, scratch)
        beside = sorted(set(self.others) - {*listed})
        return DecidedSource(
            ArchiveSet(folder, names, others=beside, splits=splits_of_archives(names, choice)),
            choice,
        )


def _walk(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields the path of each folder from a root, and the sorted names of its files."""
    folders = [""]
    while folders:
        folder = folders.pop()
        names, below = [], []
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        # It may lead to a folder that is read anyway, or to itself.
                        names += [] if Path(entry.path).is_dir() else [entry.name]
                    elif not entry.is_dir():
                        names.append(entry.name)
                    elif not is_hidden(entry.name) and not entry.name.startswith(_KIT):
                        below.append(join(folder, entry.name))
        except OSError as error:
            raise unlistable(root / folder, error) from error
        yield folder, sorted(names)
        folders += sorted(below, reverse=True)


class VolumeKind(SourceKind):
    """Images under a path; validation images may have a path, and a label file."""

    name = "volume"
    options = "--source"
    planned_as = (
        *(FOLDER, FLAT_FOLDER, *KINDS_OF_SETS),
        *(samples.KIND, parquet.KIND, *opening.KINDS),
    )

    def is_given(self, parsed: Namespace) -> bool:
        return parsed.source is not None

    def is_given_again(self, parsed: Namespace) -> bool:
        return (parsed.source or parsed.validation_source) is not None

    def mistake(self, parsed: Namespace) -> str | None:
        if parsed.validation_source is None and parsed.validation_labels is not None:
            return "--validation-labels goes with --validation-source"
        if parsed.path_in_archive is not None and parsed.source is None:
            return "--path-in-archive goes with --source"
        return None

    def open(self, parsed: Namespace) -> Source:
        _require(parsed.source, "--source (spec.dataset.source.volume.path)")
        return open_source(parsed.source, parsed.path_in_archive, parsed.data, choices.of(parsed))

    def open_validation(self, parsed: Namespace) -> Validation | None:
        path = parsed.validation_source
        if path is None:
            return None
        _require(path, "--validation-source (spec.dataset.validation.path)")
        if parsed.validation_labels is not None:
            _require(
                parsed.validation_labels, "--validation-labels (spec.dataset.validation.labels)"
            )
            return Validation(open_flat(path, parsed.data), parsed.validation_labels)
        source = open_source(path, None, parsed.data, choices.VALIDATION_ALONE)
        source.plan_fields = {**source.plan_fields, "option": _VALIDATION}
        return Validation(source, None)

    def bounding_boxes(self, parsed: Namespace) -> Sequence[Callable[[], Blob]]:
        """The files of --bounding-boxes, which go with any source."""
        return [partial(File, path) for path in parsed.bounding_boxes]

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        kind = planned.text("kind")
        within = planned.text("within") if planned.has("within") else None
        is_flat = kind in _FLAT
        is_validation = planned.has("option") or (is_flat and within is None)
        path = parsed.validation_source if is_validation else parsed.source
        if path is None:
            option = _VALIDATION if is_validation else "--source"
            raise InputError(f"{option} is missing: the plan needs a {kind}")
        is_folder = files.is_folder(path)
        if kind == parquet.KIND and not planned.has(opening.IN_ARCHIVE):
            root = path if is_folder else path.parent
            return parquet.open_planned(planned, FilesOfFolder(root, ()))
        if kind == samples.KIND or (kind in KINDS_OF_SETS and is_folder):
            folder = FilesOfFolder(path, (), parsed.data)
            return ArchiveSet(folder, (), within=within or "")
        if not is_folder:
            inside = None if is_validation else parsed.path_in_archive
            blob = _open_blob(path, parsed.data)
            return opening.open_planned_archive(planned, blob, inside)
        if kind in cifar.KINDS:
            folders = FolderContents(path, Choice(layout=choices.CIFAR)).cifar_folders()
            return cifar.open_planned(planned, str(path), folders, partial(_open_cifar, path))
        if kind not in (FOLDER, FLAT_FOLDER):
            raise changed(str(path), f"is a {FOLDER} in place of a {kind}")
        return planned_folder(path, within or "", kind)

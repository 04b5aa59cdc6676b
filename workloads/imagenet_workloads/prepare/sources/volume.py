"""The kind `volume`: a folder, or a tar of any layout, in the file system."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from imagenet_workloads import arguments as types
from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.sources.folder import FlatFolder, Folder
from imagenet_workloads.prepare.sources.source import Source, SourceKind, Validation, changed
from imagenet_workloads.prepare.sources.tar_layouts import (
    FlatTar,
    TarOfFolders,
    TarOfTars,
    open_flat_tar,
    open_tar,
)

_FLAT = (FlatFolder.kind, FlatTar.kind)


class File:
    """A file as a `Blob`."""

    def __init__(self, path: Path) -> None:
        """Opens the file.

        Raises:
            InputError: it cannot be read.
        """
        self.where = str(path)
        try:
            self._descriptor = regular_files.open_file(path)
        except FileNotFoundError:
            raise InputError(f"{path}: no such file or folder") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        self.size = os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range."""
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def open_source(path: Path, within: str | None = None) -> Source:
    """Opens a source whose classes show in it: a folder, a tar of tars or a tar of folders.

    Args:
        path: of the folder or tar.
        within: the folder or tar in the tar that holds the classes; None if nobody has said.

    Raises:
        InputError: there is no such path, or it is none of these.
    """
    if not regular_files.is_folder(path):
        return open_tar(File(path), within)
    if within is not None:
        raise InputError(f"{path}: is a folder and no archive; write {path / within} (path)")
    return Folder(path)


def open_flat(path: Path) -> Source:
    """Opens a source whose classes are in a label file: a flat folder or a flat tar.

    Raises:
        InputError: there is no such path, or it is neither.
    """
    return FlatFolder(path) if regular_files.is_folder(path) else open_flat_tar(File(path))


class VolumeKind(SourceKind):
    """Images under a path; validation images may have a path and a label file."""

    name = "volume"
    options = "--source"
    planned_as = (Folder.kind, TarOfTars.kind, TarOfFolders.kind, *_FLAT)

    def add_index_options(self, parser: ArgumentParser) -> None:
        """Adds --source, --validation-source and --validation-labels."""
        group = parser.add_argument_group("images under a path")
        group.add_argument(
            "--source",
            type=types.path,
            metavar="PATH",
            help="a folder of class folders, a tar of class tars, or a tar of class folders",
        )
        _add_path_in_archive(group.add_argument)
        group.add_argument(
            "--validation-source",
            type=types.path,
            metavar="PATH",
            help="a flat tar or folder, as ILSVRC2012_img_val.tar",
        )
        group.add_argument(
            "--validation-labels",
            type=types.path,
            metavar="FILE",
            help="its label file: "
            "lines of NAME CLASS, or of CLASS in the order of the images' names",
        )

    def add_pack_options(self, parser: ArgumentParser) -> None:
        """Adds --source and --validation-source."""
        for option in ("--source", "--validation-source"):
            parser.add_argument(
                option, type=types.path, metavar="PATH", help="as given to imagenet-index"
            )
        _add_path_in_archive(parser.add_argument)

    def is_given(self, parsed: Namespace) -> bool:
        """Whether --source is given."""
        return parsed.source is not None

    def is_given_again(self, parsed: Namespace) -> bool:
        """Whether --source or --validation-source is given."""
        return (parsed.source or parsed.validation_source) is not None

    def mistake(self, parsed: Namespace) -> str | None:
        """Images and label file of the validation go together, and without a draw."""
        if (parsed.validation_source is None) != (parsed.validation_labels is None):
            return "--validation-source and --validation-labels go together"
        if parsed.path_in_archive is not None and parsed.source is None:
            return "--path-in-archive goes with --source"
        if parsed.validation_source is not None and parsed.validation_per_class is not None:
            return "give either --validation-per-class or --validation-source, not both"
        return None

    def open(self, parsed: Namespace) -> Source:
        """Opens what --source names."""
        return open_source(parsed.source, parsed.path_in_archive)

    def open_validation(self, parsed: Namespace) -> Validation | None:
        """Opens what --validation-source names."""
        if parsed.validation_source is None:
            return None
        return Validation(open_flat(parsed.validation_source), parsed.validation_labels)

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        """Opens --source or --validation-source, which must have the planned layout."""
        kind = planned.text("kind")
        is_flat = kind in _FLAT
        path = parsed.validation_source if is_flat else parsed.source
        if path is None:
            option = "--validation-source" if is_flat else "--source"
            raise InputError(f"{option} is missing: the plan needs a {kind}")
        source = open_flat(path) if is_flat else open_source(path, parsed.path_in_archive)
        if source.kind != kind:
            source.close()
            raise changed(str(path), f"is a {source.kind} in place of a {kind}")
        return source


def _add_path_in_archive(add_argument: Callable[..., Any]) -> None:
    add_argument(
        "--path-in-archive",
        type=types.text,
        metavar="PATH",
        help="the folder or tar in the archive of --source that holds the classes (default: the "
        "folder that holds all of them)",
    )

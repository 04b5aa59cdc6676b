"""Files of a volume, and the rule for symbolic links among them.

A link to an image or a folder is followed inside the source. A link out of the source is an error:
a source must not make a program read other files of its machine. A link to a folder that is read
anyway, such as one above it, is an error, too: its images would count twice, or without end.
"""

import os
import stat
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.blob import (
    Blob,
    FileSet,
    LabelFile,
    changed,
    file_on_volume,
    readable,
)
from imagenet_workloads.prepare.stores.compressed import UnnamedFiles

# A folder with this many names is listed in this many parts.
_MANY, _PARTS = 10_000, 8


class File:
    """A file as a `Blob`; an `InputError` if it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        try:
            self._descriptor = files.open_file(path)
        except FileNotFoundError:
            raise InputError(f"{path}: no such file or folder") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        # At the latest with the last reference, as a file of Python's own.
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        self._close()


class FilesOfFolder(FileSet):
    """Files in a folder, with their paths there as names; compressed tars have those of tars.

    Their contents are in the folder `scratch`. Without it, no compressed tar is opened.
    """

    def __init__(
        self,
        root: Path,
        names: Sequence[str],
        scratch: Path | None = None,
    ) -> None:
        self.where = str(root)
        self.names = names
        self._root = root
        self._contents = None if scratch is None else UnnamedFiles(scratch)

    def open(self, name: str) -> Blob:
        names = (name,) if self._contents is None else compressed.name_forms(name)
        path = next((one for form in names if (one := self._root / form).exists()), None)
        if path is None:
            raise changed(str(self._root / name), "is gone")
        require_inside(str(path), str(self._root))
        if self._contents is None or path.name == name:
            return File(path)
        return self._contents.open(str(path), lambda: File(path))

    def label_file(self, path: str) -> LabelFile | None:
        return file_below(self._root, path)

    def close(self) -> None:
        if self._contents is not None:
            self._contents.close()


def file_below(root: Path, path: str) -> LabelFile | None:
    """A file of labels in a folder, unless it is a link that leads out of the folder."""
    file = root / path
    if not files.exists(file) or files.is_folder(file):
        return None
    is_here = is_inside(os.path.realpath(file), os.path.realpath(root))
    return file_on_volume(file) if is_here else None


def sorted_names(folder: Path) -> list[str] | Iterator[str]:
    """The names in a folder, in an order that depends on the names alone.

    A few names are a sorted list. Many names are divided into parts by checksum; each part is
    listed and sorted in turn. The names of half a million images would take more memory than the
    plan.
    """
    first = sorted(islice(names_in(folder), _MANY))
    if len(first) < _MANY:
        return first

    def of_part(part: int) -> list[str]:
        names = names_in(folder)
        return sorted(one for one in names if zlib.crc32(os.fsencode(one)) % _PARTS == part)

    return chain.from_iterable(map(of_part, range(_PARTS)))


def names_in(folder: Path) -> Iterator[str]:
    """The names in a folder, in any order; an `InputError` if it cannot be listed."""
    try:
        with os.scandir(folder) as listing:
            for entry in listing:
                yield entry.name
    except OSError as error:
        raise unlistable(folder, error) from error


def read_image(root: Path, real_root: str, name: str, size: int) -> bytes:
    """The bytes of one image in a separate file, of a size that the scan found.

    Raises:
        InputError: it is gone, has another size, or is no longer below the root's real path.
        PermissionError: this process may not read it.
    """
    # Creating Path and file objects would take longer than reading.
    path = f"{root}/{name}"
    try:
        descriptor = files.open_file(path)
    except FileNotFoundError:
        raise changed(path, "is gone") from None
    try:
        if not is_inside(real_path_of(descriptor, path), real_root):
            raise changed(path, "leads out of the source")
        data = os.read(descriptor, size + 1)
        if len(data) != size:
            found = os.fstat(descriptor).st_size
            raise changed(path, f"has {found} bytes in place of {size}")
        return data
    finally:
        os.close(descriptor)


def unlistable(folder: Path, error: OSError) -> InputError:
    """The error for a folder that may not be read, with its owner and this process's user."""
    permissions = ""
    with suppress(OSError):
        status = folder.stat()
        permissions = (
            f" (its owner is {status.st_uid}:{status.st_gid}, mode "
            f"{stat.filemode(status.st_mode)}; this process is {os.geteuid()}:{os.getegid()}); "
            "let this user read it"
        )
    return InputError(f"{folder}: cannot be listed: {error.strerror}{permissions}")


class Links:
    """Resolves the paths of a source in one scan; its root may itself be a link."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        # The path that led to each folder.
        self._entered = {self._root: str(root)}

    def look(self, path: str, is_wanted: bool) -> os.stat_result | None:
        """The status of the target of a path below the root; None for a broken link.

        Raises:
            InputError: its status cannot be read, or it is an image or a folder out of the source.
        """
        try:
            # Path.stat takes longer than the system call.
            status = os.lstat(path)
            if not stat.S_ISLNK(status.st_mode):
                return status
            status = os.stat(path)  # noqa: PTH116
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not is_wanted:
                return None
            raise InputError(
                f"{readable(path)}: cannot be accessed: {error.strerror}; remove or repair it"
            ) from error
        if is_wanted or stat.S_ISDIR(status.st_mode):
            require_inside(path, self._root)
        return status

    def enter(self, path: str, parent: str | None = None) -> str:
        """Records that a folder is read; returns its real path.

        Raises:
            InputError: another path led to it.
        """
        # Only the last part is resolved: paths may be thousands of folders deep.
        is_link = os.path.islink(path)  # noqa: PTH114
        above = self._root if parent is None else parent
        real_path = os.path.realpath(path) if is_link else f"{above}/{path.rpartition('/')[2]}"
        first = self._entered.setdefault(real_path, path)
        if first != path:
            raise InputError(
                f"{readable(path)}: leads to the same folder as {readable(first)}, so each image "
                "of it would count twice; remove the link"
            )
        return real_path


def require_inside(path: str, root: str) -> None:
    """Raises an `InputError` if a path leads out of a folder, by a link."""
    target = os.path.realpath(path)
    if not is_inside(target, os.path.realpath(root)):
        raise InputError(
            f"{readable(path)}: is a link to {readable(target)}, out of the source, and links "
            "are followed inside it only; copy or mount the images there"
        )


def is_inside(path: str, root: str) -> bool:
    """Whether a path equals another or is below it; both without links."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def real_path_of(descriptor: int, path: str) -> str:
    """The real path of an open file; replacing a part of its path cannot change it."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        return os.path.realpath(path)

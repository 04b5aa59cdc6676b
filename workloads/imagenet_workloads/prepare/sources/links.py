"""The rule for symbolic links in a folder of images.

A link to an image or a folder is followed inside the source. A link out of the source is an error:
a source must not make a program read other files of its machine. A link to a folder that is read
anyway, such as one above it, is an error, too: its images would count twice, or without end.
"""

import os
import stat
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.source import readable


class Links:
    """Resolves the paths of a source in one scan."""

    def __init__(self, root: Path) -> None:
        """Starts a scan.

        Args:
            root: of the source; may itself be a link.
        """
        self._root = os.path.realpath(root)
        # The path that led to each folder.
        self._entered = {self._root: str(root)}

    def look(self, path: str, is_wanted: bool) -> os.stat_result | None:
        """The status of a path's target; None for a broken link.

        Args:
            path: below the root.
            is_wanted: whether its name is that of an image.

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
            self._require_inside(path)
        return status

    def enter(self, path: str, parent: str | None = None) -> str:
        """Records that a folder is read; returns its real path.

        Args:
            path: the folder's.
            parent: the result for the folder above; None for the root.

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

    def _require_inside(self, path: str) -> None:
        require_inside(path, self._root)


def require_inside(path: str, root: str) -> None:
    """Checks that a path leads into a folder.

    Raises:
        InputError: it leads out of it, by a link.
    """
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

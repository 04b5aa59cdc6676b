"""The rule for symbolic links in a folder of images.

A link to an image or to a folder is followed inside the source. One that leads out of it is an
error: a source decides what it holds, not what a program reads of its machine. So is one that
leads to a folder that is read anyway, such as a folder above it: each image would count twice, or
without an end.
"""

import os
import stat
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.source import readable


class Links:
    """Looks at what a source's paths lead to, in one scan."""

    def __init__(self, root: Path) -> None:
        """Begins a scan.

        Args:
            root: of the source; may itself be a link.
        """
        self._root = os.path.realpath(root)
        # Of each folder that was entered: the path that led there.
        self._entered = {self._root: str(root)}

    def look(self, path: str, is_wanted: bool) -> os.stat_result | None:
        """The status of what a path leads to; None for a link to nothing.

        Args:
            path: below the root.
            is_wanted: it is named like an image.

        Raises:
            InputError: it cannot be looked at, or is an image or a folder out of the source.
        """
        try:
            # Path's own would take longer than the system.
            status = os.lstat(path)
            if not stat.S_ISLNK(status.st_mode):
                return status
            status = os.stat(path)  # noqa: PTH116
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not is_wanted:
                return None
            raise InputError(
                f"{readable(path)}: cannot be looked at: {error.strerror}; remove it or mend it"
            ) from error
        if is_wanted or stat.S_ISDIR(status.st_mode):
            self._require_inside(path)
        return status

    def enter(self, path: str, parent: str | None = None) -> str:
        """Takes down that a folder is read; returns where it lies, without links.

        Args:
            path: of the folder.
            parent: what this returned for the folder above; None for the root.

        Raises:
            InputError: another path has led to it.
        """
        # The folders above are not asked again: paths may be thousands of folders deep.
        is_link = os.path.islink(path)  # noqa: PTH114
        above = self._root if parent is None else parent
        place = os.path.realpath(path) if is_link else f"{above}/{path.rpartition('/')[2]}"
        first = self._entered.setdefault(place, path)
        if first != path:
            raise InputError(
                f"{readable(path)}: leads to the same folder as {readable(first)}, so each image "
                "of it would count twice; remove the link"
            )
        return place

    def _require_inside(self, path: str) -> None:
        target = os.path.realpath(path)
        if not is_inside(target, self._root):
            raise InputError(
                f"{readable(path)}: is a link to {readable(target)}, out of the source, and links "
                "are followed inside it only; copy or mount the images there"
            )


def is_inside(path: str, root: str) -> bool:
    """Whether a path is another one or lies under it; both without links."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def place_of(descriptor: int, path: str) -> str:
    """Where an open file lies, without links; None of its path can be exchanged meanwhile."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        return os.path.realpath(path)

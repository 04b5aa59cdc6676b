"""Files of one source that are opened by name: those of a folder, of a server, of a bucket."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from imagenet_workloads.prepare.sources.label_file import LabelFile
from imagenet_workloads.prepare.sources.source import Blob


class FileSet(ABC):
    """Some files, sorted by name; may be used from several threads.

    Attributes:
        where: its name in messages: a path or a URL without query.
        names: paths of the files from there.
        reads_at_once: the reads that may wait for a network at the same time; 1 for a volume.
        has_tags: whether `tag` tells another version of a file.
    """

    where: str
    names: Sequence[str]
    reads_at_once: int = 1
    has_tags: bool = False

    @abstractmethod
    def open(self, name: str) -> Blob:
        """Opens a file, which the caller closes.

        Raises:
            InputError: there is no such file, or it cannot be read.
        """

    def tag(self, name: str) -> str:
        """The ETag of a file; empty on a volume, or if the server gives none."""
        del name
        return ""

    def label_file(self, path: str) -> LabelFile | None:
        """A file of labels beside the files; None without one."""
        del path
        return None

    def close(self) -> None:  # noqa: B027
        """Closes connections; by default there are none."""

"""Files in an archive that are read by ranges, such as the Parquet files of a zip of Kaggle.

A stored file is a range of the archive. A deflated one is inflated into a file without a name in
the temporary folder. Index and pack read one file after the other, so two at a time are kept.
"""

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import atomic_files
from imagenet_workloads.prepare.sources.archive import Archive, Member, require_data
from imagenet_workloads.prepare.sources.zip import ZipArchive
from imagenet_workloads.prepare.stores.blob import Blob, FileSet, Kept, changed, readable
from imagenet_workloads.prepare.stores.compressed import UnnamedFile

LARGEST = 8 << 30
"""The most bytes of a deflated file."""

_KEPT = 2


class FilesOfArchive(FileSet):
    """Some members of an archive, with their paths there as names."""

    def __init__(self, archive: Archive, members: Iterable[Member]) -> None:
        """Reads nothing yet; the archive is closed with the files.

        Raises:
            InputError: a member cannot be read.
        """
        self.where = archive.blob.where
        self._archive = archive
        self._members = {member.name: member for member in members}
        self.names = sorted(self._members)
        self._inflated: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False
        for member in self._members.values():
            require_data(member, self.where)

    def open(self, name: str) -> Blob:
        """Opens a file, whose archive stays open when it is closed.

        Raises:
            InputError: it is gone since it was listed, damaged, or deflated and too large.
            StorageError: the temporary folder is full.
        """
        member = self._members.get(name)
        if member is None:
            raise changed(self.where, f"{name} is gone")
        archive = self._archive
        if not isinstance(archive, ZipArchive) or archive.is_stored(member):
            return Kept(archive.part(member))
        with self._lock:
            return UnnamedFile(
                f"{self.where}: {readable(name)}", os.dup(self._descriptor(archive, member))
            )

    def close(self) -> None:
        """Closes the archive."""
        with self._lock:
            while self._inflated:
                os.close(self._inflated.popitem()[1])
            # The training and the validation images of one archive share its files.
            if not self._is_closed:
                self._is_closed = True
                self._archive.blob.close()

    def _descriptor(self, archive: ZipArchive, member: Member) -> int:
        """The inflated file of a member."""
        if member.name not in self._inflated:
            self._inflated[member.name] = self._inflate(archive, member)
            if len(self._inflated) > _KEPT:
                os.close(self._inflated.popitem(last=False)[1])
        self._inflated.move_to_end(member.name)
        return self._inflated[member.name]

    def _inflate(self, archive: ZipArchive, member: Member) -> int:
        if member.size > LARGEST:
            raise InputError(
                f"{self.where}: {readable(member.name)} has {member.size} bytes and is compressed; "
                f"at most {LARGEST >> 30} GiB are decompressed; unpack the archive on a claim"
            )
        folder = Path(tempfile.gettempdir())
        with atomic_files.telling_where(folder), tempfile.TemporaryFile(dir=folder) as file:
            for chunk in archive.chunks(member):
                file.write(chunk)
            file.flush()
            return os.dup(file.fileno())

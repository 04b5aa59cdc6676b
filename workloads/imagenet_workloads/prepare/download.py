"""Downloads one file of a server into a temporary file: by ranges, or as a whole without them."""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.errors import NO_ROOM, StorageError
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.partial_file import PartialFile
from imagenet_workloads.prepare.stores import compressed
from imagenet_workloads.prepare.stores.remote import RemoteBlob, Version, WholeFile
from imagenet_workloads.telemetry.preparation import PreparationRecorder

REMEDY = "enlarge the claim of cache, or name a larger one"


class Ranges:
    """A download over several connections, which continues that of an earlier process.

    Attributes:
        version: of the server's file.
        path: the temporary file.
        present: the bytes that were on the disk at the beginning.
        is_packed: whether the server's file is compressed.
    """

    def __init__(self, blob: RemoteBlob, path: Path) -> None:
        """Asks the server for the first bytes.

        Raises:
            StorageError: the volume cannot be written.
            WorkloadError: as `RemoteBlob.read`.
        """
        self.version = blob.version
        self.path = path
        start = blob.read(0, compressed.MAGIC)
        self.is_packed = compressed.format_of(start) is not None
        self._blob = blob
        # It is open only while it is fetched: a source may have more files than a process may open.
        with closing(self._partial_file()) as file:
            self.present = file.present

    def fetch(self, connections: int, recorder: PreparationRecorder) -> None:
        """Fetches the missing blocks.

        Raises:
            StorageError: the volume is full; the message has the bytes that it lacks.
            WorkloadError: as `RemoteBlob.read`.
        """

        def fetch_block(block: int) -> None:
            data = self._blob.read(*file.span(block))
            with room(self.path, file.size - file.present):
                file.write(block, data)
            recorder.fetched(len(data))

        with closing(self._partial_file()) as file:
            for _ in map_in_order(fetch_block, file.missing(), connections):
                pass
            with room(self.path, 0):
                file.sync()

    def close(self) -> None:
        """Closes the connections."""
        self._blob.close()

    def _partial_file(self) -> PartialFile:
        return PartialFile(self.path, self.version.to_document(), self._blob.size)


class Whole:
    """A download over one connection, which begins again after each fault.

    Attributes:
        version: of the file that was received last.
        path: the temporary file.
        present: 0.
        is_packed: False, because the content is not known before.
    """

    present = 0
    is_packed = False

    def __init__(self, file: WholeFile, path: Path) -> None:
        """Begins nothing yet."""
        self.version = file.version
        self.path = path
        self._file = file

    def fetch(self, connections: int, recorder: PreparationRecorder) -> None:
        """Receives the file.

        Raises:
            StorageError: the volume is full; the message has the bytes that it lacks.
            WorkloadError: the server cannot be reached, or its answers are cut off.
        """
        del connections
        received = 0

        def take(version: Version, chunks: Iterable[bytes]) -> None:
            nonlocal received
            recorder.fetched(-received)
            received, self.version = 0, version
            with room(self.path, version.size), self.path.open("wb") as file:
                for chunk in chunks:
                    with room(self.path, max(len(chunk), version.size - received)):
                        file.write(chunk)
                    received += len(chunk)
                    recorder.fetched(len(chunk))
                file.flush()
                os.fsync(file.fileno())

        self._file.receive(take)
        self.version = Version(
            self.version.where, received, self.version.etag, self.version.last_modified
        )

    def close(self) -> None:
        """Closes the connection."""
        self._file.close()


Download = Ranges | Whole


@contextmanager
def room(path: Path, needed: int) -> Iterator[None]:
    """Raises an OSError of a write of `path`; on a full volume with the bytes that are needed.

    Raises:
        StorageError: the volume is full, read-only, or owned by another user.
        WorkloadError: any other error, which may be transient.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageError(
                f"{path.parent}: {error.strerror}: {needed} more bytes are needed; {REMEDY}"
            ) from error
        files.explain(path, error)

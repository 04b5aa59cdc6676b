"""One open tar file: what the three kinds of tar sources share."""

import os
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.interface import changed, readable
from imagenet_workloads.prepare.sources.tar import BLOCK, Kind, Member, Region, header_size


class Archive:
    """A tar file, open for reading by offset from any thread."""

    def __init__(self, path: Path) -> None:
        """Opens the file.

        Raises:
            InputError: it cannot be read.
        """
        self.path = path
        try:
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        self.size = os.fstat(self.descriptor).st_size

    def whole(self) -> Region:
        """The archive itself."""
        return Region(self.descriptor, 0, self.size, str(self.path))

    def inner(self, member: Member) -> Region:
        """A member that is a tar in its turn."""
        where = f"{self.path}: {member.name}"
        return Region(self.descriptor, member.offset, member.offset + member.size, where)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The data of the member at an offset, checked against the header before it.

        Raises:
            InputError: no member of that size begins there any more.
        """
        block = os.pread(self.descriptor, BLOCK + size, offset - BLOCK)
        # A pax header may state the size in this one's stead, but only from 8 GiB on.
        if len(block) != BLOCK + size or header_size(block[:BLOCK]) != size:
            raise changed(str(self.path), f"{name} is not at byte {offset}")
        return block[BLOCK:]

    def require_data(self, member: Member, where: str) -> None:
        """Checks that an image's member holds its bytes itself.

        Raises:
            InputError: it is a link, or sparse.
        """
        if member.kind in (Kind.LINK, Kind.SPARSE):
            what = "a link" if member.kind is Kind.LINK else "a sparse file"
            raise InputError(
                f"{where}: {readable(member.name)} is {what}, which cannot be read in place; "
                "make the archive again by tar --dereference --hard-dereference"
            )

    def close(self) -> None:
        """Closes the file."""
        os.close(self.descriptor)

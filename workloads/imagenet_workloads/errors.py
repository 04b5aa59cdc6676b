"""The errors that end a workload's program, each with the exit code that the pod's Job acts on.

Anything in this package that cannot go on raises one of these with a message for a person: which
file, variable or option, what was wrong with it, and what to write instead. `process.program`
turns it into one line on stderr, the pod's termination message and an exit code.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from imagenet_spec.names import EXIT_PERMANENT, EXIT_VOLUME_FULL

NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""The errors of a write without room.

NFS, CephFS and XFS have quotas. A process and a file system limit the size of a file.
"""


def make_room(number: int | None) -> str:
    """Return what to do about an error without room, by its number."""
    if number == errno.EFBIG:
        return "allow larger files, as by `ulimit -f` or by another file system"
    return "enlarge the output volume or remove files from it"


class WorkloadError(Exception):
    """A failure with a message for a person; the next try may succeed."""

    exit_code = 1


class InputError(WorkloadError):
    """What was given to read or to obey is wrong; another try would give the same."""

    exit_code = EXIT_PERMANENT


@contextmanager
def of_field(field: str) -> Iterator[None]:
    """Have an `InputError` begin with the manifest's field that is to be corrected."""
    try:
        yield
    except InputError as error:
        error.args = (f"{field}: {error}",)
        raise


class StorageError(WorkloadError):
    """The place to write to is wrong: read-only, too small, not ours; a retry gives the same."""

    exit_code = EXIT_PERMANENT


class VolumeFullError(StorageError):
    """The output volume has too little room; another try may find more.

    `needed` is the least number of bytes that must be free; 0 if that is not known.
    """

    exit_code = EXIT_VOLUME_FULL

    def __init__(self, message: str, needed: int = 0) -> None:
        super().__init__(message)
        self.needed = needed


def output_error(what: str, error: OSError, remedy: str = "") -> StorageError:
    """The error for a failed write to the output volume; the caller raises it.

    `what` could not be done, such as "cannot write FILE". A full volume has a remedy of its own.
    """
    message = f"{what}: {error.strerror or error}"
    if error.errno in NO_ROOM:
        return VolumeFullError(f"{message}; {make_room(error.errno)}")
    return StorageError(f"{message}; {remedy}" if remedy else message)


class SupersededError(WorkloadError):
    """A later attempt of the same job exists, so this one may not write any more."""

    exit_code = EXIT_PERMANENT

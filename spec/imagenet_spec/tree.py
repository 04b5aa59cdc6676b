"""A folder whose files are read and written by relative names that cannot lead out of it.

imagenet-door serves one, and its client sends one or writes into one; neither trusts the names that
the other says. Each part of a name is opened from the descriptor of the folder above it, and no
link is followed. So a folder that is replaced by a link meanwhile leads nowhere.

What arrives is written to a hidden partial file beside its target, under a lock. It gets its name
by `Tree.publish`, after it was synced.
"""

import errno
import fcntl
import hashlib
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from imagenet_spec.door import Reason
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.names import TEMPORARY
from imagenet_spec.volume_files import OPENING, kind_of, open_file

if TYPE_CHECKING:
    from hashlib import _Hash

NAME_BYTES: Final = 255
PATH_BYTES: Final = 4096

_PARTIAL: Final = ".imagenet-part-"
_UNFINISHED: Final = re.compile(rf"{re.escape(_PARTIAL)}[0-9a-f]{{32}}|{TEMPORARY}")
# Controls, separators of lines, and the halves by which Python writes bytes that are not UTF-8.
_UNPRINTABLE: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 1 << 20

_REASONS: Final[dict[int, Reason]] = {
    errno.ENOENT: "NotFound",
    **dict.fromkeys(
        (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL), "Invalid"
    ),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Forbidden"),
    errno.EROFS: "ReadOnly",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Full"),
}
# A file system without locks, such as some over a network.
_NO_LOCKS: Final = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))


class FileError(ImageNetJobError):
    """A file cannot be read or written; the text begins with its name."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Raise an OSError of the block as a FileError about a path."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, "Failed")
        raise FileError(reason, f"{path or '.'}: {error.strerror or error}") from error


def fault(name: str) -> str | None:
    """Return what is wrong with one part of a relative name; None if nothing is.

    >>> fault(".."), fault("n01440764")
    ('may not be . or ..', None)
    """
    if name in ("", ".", ".."):
        return "may not be . or .." if name else "has // or a / at its beginning or end"
    if "\\" in name or "/" in name:
        return "has a backslash or slash in a part"
    if _UNPRINTABLE.search(name):
        return "has a character that ends a line or cannot be printed"
    if len(name.encode()) > NAME_BYTES:
        return f"has a part of more than {NAME_BYTES} bytes"
    if _UNFINISHED.fullmatch(name):
        return "is the name of an unfinished file"
    return None


def parts_of(path: str) -> tuple[str, ...]:
    """Return the parts of a relative path; the empty path, the folder itself, has none.

    Raises:
        FileError: It is absolute, leads upwards, or is not portable.
    """
    if not path:
        return ()
    parts = tuple(path.split("/"))
    for part in parts:
        if (wrong := fault(part)) is not None:
            raise FileError("Invalid", f"{printable(path)}: {wrong}")
    if len(path.encode()) > PATH_BYTES:
        raise FileError("Invalid", f"{path[:100]}…: has more than {PATH_BYTES} bytes")
    return parts


def printable(path: str) -> str:
    """Return a path for a message, with escapes for what has no character."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path)


def read_hash(
    file: io.FileIO, length: int | None = None, hashed: "_Hash | None" = None
) -> tuple[int, "_Hash"]:
    """Hash a file from where it is, to its end or `length` bytes; return how many there were.

    `hashed` is what is before them, which goes on; None is a new hash.
    """
    hashed, size = hashed or hashlib.sha256(), 0
    buffer = memoryview(bytearray(_CHUNK))
    while length is None or size < length:
        wanted = _CHUNK if length is None else min(_CHUNK, length - size)
        count = file.readinto(buffer[:wanted])
        if not count:
            break
        hashed.update(buffer[:count])
        size += count
    return size, hashed


def write_all(file: io.FileIO, content: bytes | memoryview) -> None:
    """Write every byte: a system call may write less."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) or 0 :]


@dataclass(frozen=True)
class Found:
    """What a listing has found: a file of so many bytes, or why it is no file to send."""

    path: str
    size: int = 0
    left_out: str = ""


@dataclass(frozen=True)
class Partial:
    """The part that has arrived of the file that will have this path; locked while it is open."""

    path: str
    file: io.FileIO

    @property
    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size


class Tree:
    """The files of a folder, which exists and may be a link; a context manager.

    Raises:
        FileError: It cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        with file_errors(str(folder)):
            self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    @contextmanager
    def _folder(self, parts: Sequence[str], *, is_made: bool = False) -> Iterator[int]:
        """Open a folder below; `is_made`: make what is missing of it."""
        descriptor = os.dup(self._root)
        try:
            for part in parts:
                try:
                    below = os.open(part, _FOLDER, dir_fd=descriptor)
                except FileNotFoundError:
                    if not is_made:
                        raise
                    # Another thread may make it too.
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                        os.fsync(descriptor)
                    below = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def free(self) -> int:
        """Return the bytes of the volume that this process may still use."""
        status = os.fstatvfs(self._root)
        return status.f_bavail * status.f_frsize

    def open(self, path: str, *, is_partial: bool = False) -> io.FileIO:
        """Open a file, or its partial file, for reading, unbuffered.

        Raises:
            FileError: It is missing, is no file, or cannot be read.
        """
        above, name = _divided(path, is_partial=is_partial)
        with file_errors(path), self._folder(above) as folder:
            return io.FileIO(open_file(name, folder=folder, flags=os.O_NOFOLLOW))

    def size(self, path: str, *, is_partial: bool = False) -> int | None:
        """Return the size of a file, or of its partial file; None if there is none.

        Raises:
            FileError: Something else has the name, or the name of a folder above.
        """
        above, name = _divided(path, is_partial=is_partial)
        with file_errors(path):
            try:
                with self._folder(above) as folder:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return None
        if (kind := kind_of(status.st_mode)) is not None:
            raise FileError("Invalid", f"{path}: is {kind}, not a file")
        return status.st_size

    def files(self, path: str = "") -> Iterator[Found]:
        """Yield what is in a folder and below, in no order; of a file, itself.

        Unfinished files are passed over. Memory is needed for the names of folders alone.

        Raises:
            FileError: There is nothing of this name, or it cannot be read.
        """
        parts = parts_of(path)
        with file_errors(path), self._folder(parts[:-1]) as above:
            status = os.stat(parts[-1] if parts else ".", dir_fd=above, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            yield Found(path, status.st_size, _left_out(status.st_mode))
            return
        folders = [path]
        while folders:
            folder = folders.pop()
            try:
                with (
                    file_errors(folder),
                    self._folder(folder.split("/") if folder else ()) as descriptor,
                    os.scandir(descriptor) as entries,
                ):
                    for entry in entries:
                        yield from self._found(folder, entry, folders)
            except FileError as error:
                if folder == path:
                    raise
                yield Found(folder, left_out=str(error.__cause__))

    def _found(self, folder: str, entry: "os.DirEntry[str]", folders: list[str]) -> Iterator[Found]:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if _UNFINISHED.fullmatch(entry.name):
            return
        if (wrong := fault(entry.name)) is not None or len(path.encode()) > PATH_BYTES:
            shown = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
            yield Found(printable(shown)[:PATH_BYTES], left_out=wrong or "is too long a path")
            return
        try:
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
                return
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            # Deleted since.
            return
        yield Found(path, status.st_size, _left_out(status.st_mode))

    @contextmanager
    def partial(self, path: str) -> Iterator[Partial]:
        """Open the partial file of a target, and make it and its folders if they are missing.

        One that has no bytes at the end of the block is deleted.

        Raises:
            FileError: It is open elsewhere (Busy), or cannot be written.
        """
        above, hidden = _divided(path, is_partial=True)
        self.size(path)
        with file_errors(path), self._folder(above, is_made=True) as folder:
            file = _opened_alone(path, hidden, folder)
        with file:
            partial = Partial(path, file)
            try:
                yield partial
            finally:
                if not partial.size:
                    self.discard(partial)

    def discard(self, partial: Partial) -> None:
        """Delete an open partial file, unless it was published."""
        above, hidden = _divided(partial.path, is_partial=True)
        with suppress(OSError), self._folder(above) as folder:
            if _is(hidden, folder, partial.file):
                os.unlink(hidden, dir_fd=folder)

    def write(self, files: Iterable[tuple[str, bytes]]) -> int:
        """Write whole files, with their paths, and return how many.

        Together they cost less than one after the other. An error leaves nothing unfinished.

        Raises:
            FileError: One cannot be written.
        """
        with ExitStack() as stack:
            partials: list[Partial] = []
            try:
                for path, content in files:
                    partials.append(partial := stack.enter_context(self.partial(path)))
                    with file_errors(path):
                        partial.file.truncate(0)
                        write_all(partial.file, content)
                self.publish(partials)
            except BaseException:
                for partial in partials:
                    self.discard(partial)
                raise
        return len(partials)

    def publish(self, partials: Sequence[Partial]) -> None:
        """Sync open partial files to the volume, and rename each to its target.

        Raises:
            FileError: One cannot be written; those before it may be there.
        """
        for partial in partials:
            with file_errors(partial.path):
                os.fsync(partial.file.fileno())
        folders: dict[tuple[str, ...], str] = {}
        for partial in partials:
            above, name = _divided(partial.path)
            _, hidden = _divided(partial.path, is_partial=True)
            # Something else may have taken its place.
            self.size(partial.path)
            with file_errors(partial.path), self._folder(above) as folder:
                os.rename(hidden, name, src_dir_fd=folder, dst_dir_fd=folder)
            folders[above] = partial.path
        for parts, path in folders.items():
            with file_errors(path), self._folder(parts) as folder:
                os.fsync(folder)


def _left_out(mode: int) -> str:
    return "" if (kind := kind_of(mode)) is None else f"is {kind}"


def _divided(path: str, *, is_partial: bool = False) -> tuple[tuple[str, ...], str]:
    """Return the folders of a file, and its name or that of its partial file."""
    parts = parts_of(path)
    if not parts:
        raise FileError("Invalid", "a file needs a name")
    *above, name = parts
    if is_partial:
        # As long for every target.
        name = _PARTIAL + hashlib.sha256(name.encode()).hexdigest()[:32]
    return tuple(above), name


def _opened_alone(path: str, hidden: str, folder: int) -> io.FileIO:
    """Open a partial file, locked against every other process and thread."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | OPENING
        descriptor = os.open(hidden, flags, 0o666, dir_fd=folder)
        file = io.FileIO(descriptor, "r+")
        try:
            status = os.fstat(descriptor)
            if kind_of(status.st_mode) is not None or status.st_nlink > 1:
                raise FileError("Invalid", f"{path}: {hidden} beside it is no partial file")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileError("Busy", f"{path}: another transfer writes it") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            if _is(hidden, folder, file):
                return file
        except BaseException:
            file.close()
            raise
        # Another one has published or deleted it before this one had the lock.
        file.close()


def _is(name: str, folder: int, file: io.FileIO) -> bool:
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(file.fileno()))

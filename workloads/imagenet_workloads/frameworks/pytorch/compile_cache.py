"""Keeps compiled code beside the checkpoints, so that a later attempt need not compile again.

    attempts/rN/compiled/KEY-DEVICE-0.bin   a line with the SHA-256 of the rest; PyTorch's artifacts

The artifacts hold pickles, so loading them is running code: who can write such a file can run code
in the worker (docs/security.md). So only files of this job's own attempts are loaded that nobody
but this process's user can write. KEY is made of the job, of all versions and of the kind of
device. The artifacts have the number of the device in their own keys, so each device of a worker
has files. Code that was compiled later is in a file of its own: of artifacts that were saved twice,
PyTorch 2.15 loads only the newer part.
"""

import hashlib
import logging
import os
import platform
import stat
import tempfile
from pathlib import Path

import torch

from imagenet_workloads import files
from imagenet_workloads.checkpoint.manifest import Identity

_log = logging.getLogger(__name__)

FOLDER = "compiled"
# ResNet-50's take 4 MB.
_MOST_BYTES = 1 << 30
_LINE = 65


class CompileCache:
    """The compiled code of a job for one device."""

    def __init__(self, attempt: Path, identity: Identity, device: torch.device) -> None:
        """Read nothing yet.

        Args:
            attempt: the folder of this attempt, attempts/rN.
            identity: of the training.
            device: that computes.
        """
        self._attempt = attempt
        self._name = f"{_key(identity, device)}-{device.index or 0}"
        self._saved: list[bytes] = []

    def load(self) -> bool:
        """Give PyTorch the code of the newest attempt that has left any; false without any."""
        for attempt in sorted(self._attempt.parent.glob("r*"), key=_number, reverse=True):
            paths = sorted((attempt / FOLDER).glob(f"{self._name}-*.bin"))
            if paths:
                loaded = [path for path in paths if _load(path)]
                _log.info(
                    "compiled code of attempt %s is used: %d files", attempt.name, len(loaded)
                )
                return bool(loaded)
        return False

    def save(self) -> None:
        """Write all code that PyTorch has compiled, unless it is saved already.

        A volume without room is no error: code can be compiled again.
        """
        found = torch.compiler.save_cache_artifacts()
        if found is None or found[0] in self._saved:
            return
        folder = self._attempt / FOLDER
        path = folder / f"{self._name}-{len(self._saved)}.bin"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            with (
                files.replacing(path) as temporary,
                os.fdopen(os.open(temporary, flags, 0o600), "wb") as file,
            ):
                file.write(f"{hashlib.sha256(found[0]).hexdigest()}\n".encode())
                file.write(found[0])
        except OSError as error:
            _log.warning("%s: compiled code is not saved: %s", folder, error.strerror)
            return
        self._saved.append(found[0])


def folder_of_this_user() -> Path:
    """Return the temporary folder of what PyTorch compiles, which it loads again from there.

    PyTorch's own choice has the user's name, and in a pod the user may have none. On a machine of
    several users, another one may have made the folder: then it is a new one.
    """
    folder = Path(tempfile.gettempdir(), f"torchinductor-{os.geteuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _require_own(folder, folder.lstat(), stat.S_IFDIR)
    except (OSError, ValueError) as error:
        _log.warning("%s is not used for compiled code: %s", folder, error)
        return Path(tempfile.mkdtemp(prefix="torchinductor-"))
    return folder


def _key(identity: Identity, device: torch.device) -> str:
    """Return what must be equal for code to be used again, as 16 hex digits."""
    if device.type == "cuda":
        kind = (torch.cuda.get_device_name(device), *torch.cuda.get_device_capability(device))
    else:
        kind = (platform.machine(), torch.backends.cpu.get_cpu_capability())
    versions = torch.__version__, torch.version.cuda, platform.python_version()
    parts = identity.job_uid or identity.spec_hash, device.type, *kind, *versions
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _load(path: Path) -> bool:
    try:
        if torch.compiler.load_cache_artifacts(_read(path)) is None:
            raise ValueError("PyTorch cannot read it")
    except Exception as error:  # PyTorch raises what its parts raise.
        _log.warning("%s is ignored, and its code compiled again: %s", path, error)
        return False
    return True


def _number(attempt: Path) -> int:
    number = attempt.name[1:]
    return int(number) if number.isdecimal() else -1


def _read(path: Path) -> bytes:
    """Return the artifacts of a file.

    Raises:
        ValueError: somebody else could have written it, or it is damaged.
        OSError: it cannot be read.
    """
    _require_own(path.parent, path.parent.lstat(), stat.S_IFDIR)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _require_own(path, status, stat.S_IFREG)
        if status.st_size > _MOST_BYTES:
            raise ValueError(f"has {status.st_size} bytes")
        line, artifacts = file.read(_LINE), file.read()
    if line != f"{hashlib.sha256(artifacts).hexdigest()}\n".encode():
        raise ValueError("is damaged")
    return artifacts


def _require_own(path: Path, status: os.stat_result, kind: int) -> None:
    if stat.S_IFMT(status.st_mode) != kind:
        raise ValueError(f"{path} is of another kind")
    if status.st_uid != os.geteuid():
        raise ValueError(f"{path} belongs to user {status.st_uid}, and not to {os.geteuid()}")
    if status.st_mode & 0o077:
        raise ValueError(f"{path} has mode {stat.S_IMODE(status.st_mode):o}: others have rights")

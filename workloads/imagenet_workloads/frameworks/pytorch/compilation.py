"""torch.compile of the network that trains and is validated, and its code of earlier attempts.

It generates C++ on a CPU, and Triton's kernels on a GPU. Both call a compiler when the first batch
is trained. Where the user asked for compiled code, the compiler is looked for before the worker
joins the others, and nothing else trains. Where compiling is the default, the network itself trains
if it fails. Imports PyTorch.
"""

import hashlib
import json
import logging
import os
import platform
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo.exc import TorchDynamoException

from imagenet_workloads import files
from imagenet_workloads.checkpoint import COMPILED_FILE, Identity
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields

_log = logging.getLogger(__name__)

FOLDER = "compiled"
# ResNet-50's take 4 MB.
_MOST_BYTES = 1 << 30
_LINE = 65


class CompileCache:
    """The compiled code of a job for one device, beside the checkpoints.

        attempts/rN/compiled/KEY-DEVICE-0.bin   a line with the SHA-256 of the rest; the artifacts

    The artifacts hold pickles, so loading them is running code: who can write such a file can run
    code in the worker (docs/security.md). So only files of this job's own attempts are loaded that
    nobody but this process's user can write. KEY is made of the job, of all versions and of the
    kind of device. The artifacts have the number of the device in their own keys, so each device of
    a worker has files. Code that was compiled later is in a file of its own: of artifacts that were
    saved twice, PyTorch 2.15 loads only the newer part.
    """

    def __init__(self, attempt: Path, identity: Identity, device: torch.device) -> None:
        self._attempt = attempt
        # What must be equal for code to be used again.
        if device.type == "cuda":
            kind = (torch.cuda.get_device_name(device), *torch.cuda.get_device_capability(device))
        else:
            kind = (platform.machine(), torch.backends.cpu.get_cpu_capability())
        versions = torch.__version__, torch.version.cuda, platform.python_version()
        parts = identity.job_uid or identity.spec_hash, device.type, *kind, *versions
        key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
        self._name = f"{key}-{device.index or 0}"
        self._saved: list[bytes] = []

    def load(self) -> bool:
        """Give PyTorch the code of the newest attempt that has left any; false without any."""
        for attempt in sorted(self._attempt.parent.glob("r*"), key=_number, reverse=True):
            paths = sorted((attempt / FOLDER).glob(f"{self._name}-*.bin"))
            if paths:
                loaded = 0
                for path in paths:
                    try:
                        if torch.compiler.load_cache_artifacts(_read(path)) is None:
                            raise ValueError("PyTorch cannot read it")
                        loaded += 1
                    except Exception as error:  # PyTorch raises what its parts raise.
                        _log.warning("%s is ignored, and its code compiled again: %s", path, error)
                _log.info("compiled code of attempt %s is used: %d files", attempt.name, loaded)
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


def _number(attempt: Path) -> int:
    number = attempt.name[1:]
    return int(number) if number.isdecimal() else -1


def _read(path: Path) -> bytes:
    """Return a file's artifacts; ValueError if it is damaged or others could have written it."""
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


def choose(
    asked: bool | None, resumed: Path | None, device: torch.device, certain: bool
) -> bool | None:
    """Return whether the network is compiled; False if that was chosen and fails, None if not.

    Compiled code rounds differently, so a training goes on as it began. Without a compiler, what
    is compiled by default is not, with a warning.

    Args:
        asked: by the user; None without an answer.
        resumed: the checkpoint of this training that it goes on from; None at its beginning.
        device: that trains.
        certain: whether the training must have the same bits each time.

    Raises:
        InputError: the checkpoint is damaged.
    """
    if asked is not None:
        return asked or None
    if resumed is not None:
        # Without the file, it began before compiling was the default.
        path = resumed / COMPILED_FILE
        if not path.exists():
            return None
        if Fields.read(path).values.get("compiled") is not True:
            return False
    elif device.type != "cuda" or certain:
        return None
    missing = missing_compiler(device)
    if missing is not None:
        _log.warning(
            "training goes on without compiled code, and is slower: %s, or write --compile 0 "
            "(training.compile: false)",
            missing,
        )
    return missing is None


def record(folder: Path, is_compiled: bool) -> None:
    """Write into a checkpoint that is not complete yet whether compiled code trains."""
    (folder / COMPILED_FILE).write_text(json.dumps({"compiled": is_compiled}) + "\n")


def missing_compiler(device: torch.device) -> str | None:
    """Return which compiler torch.compile lacks here, and the remedy; None if there is one."""
    variable, usual = ("CC", "gcc") if device.type == "cuda" else ("CXX", "g++")
    compiler = os.environ.get(variable, usual)
    if shutil.which(compiler) is not None:
        return None
    return (
        f"torch.compile calls the compiler {compiler}, which is missing here; install {usual}, "
        f"set {variable}"
    )


def require_compiler(device: torch.device) -> None:
    """Raise InputError without the compiler that torch.compile calls."""
    missing = missing_compiler(device)
    if missing is not None:
        raise InputError(f"--compile (training.compile): {missing}, or leave it out")


class Fallback:
    """Whether the networks of a training compute themselves, because compiling one has failed."""

    is_taken = False


class CompiledNetwork(nn.Module):  # type: ignore[misc]
    """A network whose passes run compiled code; its parameters and buffers are the network's."""

    def __init__(self, network: nn.Module, *, is_required: bool, sizes: int = 1) -> None:
        """Compile nothing yet.

        The network's batches have so many `sizes`; each is compiled for itself. `is_required` says
        whether a failing compile is an error.
        """
        super().__init__()
        self.network = network
        self._is_required = is_required
        self.fallback = Fallback()
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder_of_this_user()))
        if not is_required:
            # So that all that can fail does so in the forward pass.
            torch._functorch.config.force_non_lazy_backward_lowering = True
        # Not by the name of a module: its parameters would be there twice.
        self._compiled = [
            torch.compile(
                network,
                dynamic=False,
                # Beyond its limit, PyTorch would run the network without a word.
                recompile_limit=sizes * torch._dynamo.config.recompile_limit,
            )
        ]

    def forward(self, images: torch.Tensor) -> Any:
        if self.fallback.is_taken:
            return self.network(images)
        try:
            return self._compiled[0](images)
        except TorchDynamoException as error:
            if self._is_required:
                raise
            # Its second line is what the compiler said.
            said = " ".join(str(error).split("\n")[:2])
            _log.warning(
                "torch.compile failed, so training goes on without compiled code, and is slower; "
                "--compile 0 (training.compile: false) leaves it out: %s: %s",
                type(error).__name__,
                said,
            )
            self.fallback.is_taken = True
            return self.network(images)

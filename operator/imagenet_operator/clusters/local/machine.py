"""What this machine gives to the pods of a run: loopback addresses, GPUs, and folders of claims.

Pods use the same ports as in a cluster, so each pod needs its own address, and runs must not share
addresses. A run claims 127.A.B.0/24 by a socket bound to 127.A.B.1, and gives its pods 127.A.B.2
and up. The kernel closes the socket when the last process that holds it has died.

Pods get GPUs by CUDA_VISIBLE_DEVICES. The capacity is `--gpus N`, else imagenetctl's own
CUDA_VISIBLE_DEVICES, else the list of `nvidia-smi`, else the device nodes in /dev.

A claim is the folder WORKDIR/volumes/CLAIM, or that of `--volume CLAIM=PATH`. A folder that the
local cluster created for a claim is deleted with the claim. A mapped folder, or one that the user
created, is never deleted. A Secret is the folder that `--secret NAME=FOLDER` names, with a file for
each key.
"""

import errno
import random
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from types import MappingProxyType

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.environments import Programs

ANCHOR_PORT = 9089
"""The port of the socket that claims a block; below the ephemeral ports."""

FIRST, LAST = 2, 254
_TRIES = 64
# A port may be in use in one block by chance; if it is in use in all of these, it is everywhere.
_BLOCKS = 4
_LISTENER = re.compile(r"(?<![\d.])(127\.\d{1,3}\.\d{1,3}\.\d{1,3}):(\d{1,5})\b")
_STOP = "stop that program during this run"


class AddressBlock:
    """The addresses of one run."""

    def __init__(self, anchor: socket.socket) -> None:
        self._anchor = anchor
        self._prefix = anchor.getsockname()[0].rpartition(".")[0]
        self._given: dict[str, int] = {}
        self._last_given = FIRST - 1

    def fileno(self) -> int:
        """The descriptor of the claim; processes that inherit it keep the claim."""
        return self._anchor.fileno()

    def of(self, name: str) -> str:
        """Return the address of a pod, the same until it is released.

        Addresses are reused as late as possible: a stale peer must not connect to a new pod.
        """
        if name not in self._given:
            taken = set(self._given.values())
            numbers = (*range(self._last_given + 1, LAST + 1), *range(FIRST, self._last_given + 1))
            free = next((number for number in numbers if number not in taken), None)
            if free is None:
                raise LocalError(f"a local run holds at most {LAST - FIRST + 1} pods at one time")
            self._given[name] = self._last_given = free
        return f"{self._prefix}.{self._given[name]}"

    def release(self, name: str) -> None:
        self._given.pop(name, None)

    def close(self) -> None:
        self._anchor.close()


def claim_addresses(
    ports: Iterable[int] = (), remedies: Mapping[int, str] = MappingProxyType({})
) -> AddressBlock:
    """Claim a block that no other run on this machine holds.

    If another program listens on one of the ports on all addresses, a LocalError says so, with the
    port's remedy if there is a choice.
    """
    wanted = tuple(ports)
    passed_over = 0
    while True:
        anchor = _anchor()
        try:
            for port in wanted:
                _bind(anchor.getsockname()[0], port).close()
            return AddressBlock(anchor)
        except OSError as error:
            anchor.close()
            passed_over += 1
            if passed_over == _BLOCKS:
                raise LocalError(
                    f"port {port} cannot be used on this machine's loopback addresses "
                    f"({error.strerror}): a program listens on it on all addresses, for example "
                    f"0.0.0.0:{port}; {remedies.get(port, _STOP)}"
                ) from error


def with_own_ports(text: str) -> str:
    """Give each address in a text a port that no other address has.

    TensorFlow's server listens on all addresses of a machine, whatever TF_CONFIG says. So the
    second worker would find its port in use. Every worker computes the same ports.
    """
    return _LISTENER.sub(_own_port, text)


def _own_port(address: re.Match[str]) -> str:
    host, port = address.groups()
    # Below the ephemeral ports, and above the members' ports in a cluster.
    return f"{host}:{20_000 + (int(IPv4Address(host)) + int(port)) % 12_000}"


def _anchor() -> socket.socket:
    """Bind the anchor of a free block, chosen at random from the middle of 127.0.0.0/8."""
    for _ in range(_TRIES):
        host = f"127.{random.randint(16, 250)}.{random.randint(0, 255)}.1"
        try:
            return _bind(host, ANCHOR_PORT)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise LocalError(
                    f"cannot bind the loopback address {host} ({error.strerror}); "
                    "a local run needs all of 127.0.0.0/8, as Linux has it"
                ) from error
    raise LocalError(
        f"no free block of loopback addresses in {_TRIES} tries: a program listens on "
        f"0.0.0.0:{ANCHOR_PORT}, which a local run needs; stop it during this run"
    )


def _bind(host: str, port: int) -> socket.socket:
    """Return a TCP socket bound without SO_REUSEADDR, so that a second one fails."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
GPU_RESOURCE = "nvidia.com/gpu"


class Gpus:
    """Allocates GPUs to pods, by their identifiers in CUDA_VISIBLE_DEVICES."""

    def __init__(self, devices: tuple[str, ...]) -> None:
        self._devices = devices
        self._holders: dict[str, str] = {}

    @property
    def capacity(self) -> int:
        return len(self._devices)

    def take(self, holder: str, count: int) -> tuple[str, ...] | None:
        """Allocate GPUs to a pod; return their identifiers, or None if too few are free."""
        free = [device for device in self._devices if device not in self._holders]
        if len(free) < count:
            return None
        taken = tuple(free[:count])
        self._holders.update(dict.fromkeys(taken, holder))
        return taken

    def release(self, holder: str) -> None:
        self._holders = {device: name for device, name in self._holders.items() if name != holder}


def find_gpus(
    requested: int | None, environment: Mapping[str, str], devices: Path
) -> tuple[str, ...]:
    """Return the GPUs that a run may use; raise LocalError if the environment allows fewer.

    `requested` is the value of `--gpus`, `devices` the folder of the device nodes.
    """
    visible = environment.get(VISIBLE_GPUS)
    if visible is None:
        count = _detect(devices) if requested is None else requested
        return tuple(str(index) for index in range(count))
    names = (name.strip() for name in visible.split(","))
    # "" and "-1" hide all.
    allowed = tuple(name for name in names if name and name != "-1")
    if requested is None:
        return allowed
    if requested > len(allowed):
        raise LocalError(
            f"--gpus {requested} is more than {VISIBLE_GPUS}={visible} allows ({len(allowed)}); "
            "change one of the two"
        )
    return allowed[:requested]


def _detect(devices: Path) -> int:
    """Count GPUs by nvidia-smi, or by the device nodes if it is missing."""
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
        # One line "GPU 0: NAME (UUID: …)" a GPU; its MIG devices are indented below it.
        return len(re.findall(r"^GPU \d+:", listing, re.MULTILINE))
    except (OSError, subprocess.SubprocessError):
        nodes = devices.iterdir() if devices.is_dir() else iter(())
        return sum(re.fullmatch(r"nvidia\d+", node.name) is not None for node in nodes)


class Volumes:
    """The claims of one working directory.

    `root` holds a folder for each claim; `mapped` are claims whose folder is elsewhere.
    """

    def __init__(
        self, root: Path, mapped: Mapping[str, Path], secrets: Mapping[str, Path] | None = None
    ) -> None:
        self._root = root
        self._mapped = dict(mapped)
        self.secrets = dict(secrets or {})

    @property
    def mapped(self) -> frozenset[str]:
        """The claims whose folder is elsewhere."""
        return frozenset(self._mapped)

    def with_folder(self, claim: str, folder: Path) -> "Volumes":
        return Volumes(self._root, {**self._mapped, claim: folder}, self.secrets)

    def path(self, claim: str) -> Path:
        """Return the folder of a claim, whether it exists or not."""
        return self._mapped.get(claim, self._root / claim)

    def folder(self, claim: str) -> Path:
        """Return the folder of a claim; raise LocalError if there is none that can be read."""
        folder = self.path(claim)
        try:
            is_there = folder.is_dir()
        except OSError as error:
            raise LocalError(
                f"cannot read the folder {folder} of claim {claim!r}: {error.strerror}; "
                f"name another folder with --volume {claim}=PATH"
            ) from error
        if not is_there:
            raise LocalError(
                f"claim {claim!r} has no folder on this machine: create {folder} and put the files "
                f"there, or name another folder with --volume {claim}=PATH"
            )
        return folder

    def secret(self, name: str) -> Path:
        """Return the folder of a Secret; raise LocalError if no folder is named for it."""
        folder = self.secrets.get(name)
        if folder is None:
            raise LocalError(
                f"Secret {name!r} has no folder on this machine: create a folder with a file for "
                f"each key, and name it with --secret {name}=FOLDER"
            )
        return folder

    def provision(self, claim: str) -> None:
        """Create the folder of a claim of the job, or use the existing one."""
        try:
            self.path(claim).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalError(
                f"cannot create the folder {self.path(claim)} of claim {claim!r}: {error.strerror}"
            ) from error

    def remove(self, claim: str) -> None:
        """Delete the folder of a claim that `provision` created; a mapped folder stays."""
        if claim not in self._mapped:
            shutil.rmtree(self._root / claim, ignore_errors=True)


@dataclass(frozen=True)
class Machine:
    """The resources of this machine for a run.

    Attributes:
        images: The images that this machine replaces.
        scratch: The folder of their emptyDir volumes and termination messages.
        slots: The most pods of one Job at the same time.
        shared: File descriptors that stay open while a pod runs.
    """

    volumes: Volumes
    addresses: AddressBlock
    gpus: Gpus
    programs: Programs
    environment: Mapping[str, str]
    images: frozenset[str]
    logs: Path
    scratch: Path
    slots: int
    shared: tuple[int, ...] = ()

"""Limits of processors and of disks for processes, by control groups that root makes.

Version 2 of the control groups is used where it has the controller, else version 1. A machine, or a
container, may give neither: then the caller slows the processes down in another way.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Limit:
    """A limit in both versions.

    Attributes:
        controller: of version 2.
        former: the same of version 1.
        of_v2: contents by file.
        of_v1: likewise.
    """

    controller: str
    former: str
    of_v2: Mapping[str, str]
    of_v1: Mapping[str, str]


def cores(number: float) -> Limit:
    """So many cores, in periods of 0.1 s, which a busy machine gives before all others."""
    quota = round(number * 100_000)
    of_v2 = {"cpu.max": f"{quota} 100000", "cpu.weight": "10000"}
    return Limit("cpu", "cpu", of_v2, {"cpu.cfs_quota_us": str(quota), "cpu.shares": "262144"})


def reads(device: str, bytes_per_second: int) -> Limit:
    """So many bytes a second that are read from a disk, MAJOR:MINOR."""
    of_v2 = {"io.max": f"{device} rbps={bytes_per_second}"}
    of_v1 = {"blkio.throttle.read_bps_device": f"{device} {bytes_per_second}"}
    return Limit("io", "blkio", of_v2, of_v1)


@contextmanager
def limited(processes: Sequence[int], limit: Limit) -> Iterator[Path | None]:
    """Limit processes together; give their group, None if this machine gives none."""
    is_v2 = (ROOT / "cgroup.controllers").exists()
    above = ROOT if is_v2 else ROOT / limit.former
    group = above / f"imagenet-test-{os.getpid()}"
    controller = "" if is_v2 else limit.former
    former = {process: above / _group_of(process, controller) for process in processes}
    try:
        if is_v2:
            with suppress(OSError):
                (ROOT / "cgroup.subtree_control").write_text(f"+{limit.controller}")
        elif not above.is_dir():
            raise OSError("no such controller")
        group.mkdir()
        change(group, limit)
        for process in processes:
            (group / "cgroup.procs").write_text(str(process))
    except OSError:
        with suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        for process, before in former.items():
            with suppress(ProcessLookupError):
                (before / "cgroup.procs").write_text(str(process))
        group.rmdir()


def change(group: Path, limit: Limit) -> None:
    """Give a group another limit."""
    contents = limit.of_v2 if group.parent == ROOT else limit.of_v1
    for file, content in contents.items():
        (group / file).write_text(content)


def _group_of(process: int, controller: str) -> str:
    """The path of a process's group below the root of a controller; version 2 has none."""
    for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == controller:
            return path.strip("/")
    return ""

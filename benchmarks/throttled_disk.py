"""A slow disk for some processes: limits of the blkio controller of cgroup v1, set by root."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

BLKIO = Path("/sys/fs/cgroup/blkio")


class DiskLimit(NamedTuple):
    """What a disk does in a second.

    Attributes:
        mib: that it reads.
        requests: to read, of which the kernel makes one for up to about a MiB.
    """

    mib: int
    requests: int


class DiskReads(NamedTuple):
    """What the disk has read for a group."""

    requests: int
    bytes: int


@contextmanager
def throttled_disk(folder: Path, limit: DiskLimit, root: Path = BLKIO) -> Iterator[Path]:
    """A control group whose processes read from the disk of a folder only so fast.

    Raises:
        SystemExit: this machine or user has no such groups, or the folder is on no disk.
    """
    device = device_of(folder)
    group = root / f"imagenet-benchmark-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise _refused(error) from error
    try:
        _set_limits(group, device, limit)
        yield group
    finally:
        _remove(group)


def _set_limits(group: Path, device: str, limit: DiskLimit) -> None:
    try:
        bytes_of_second = limit.mib << 20
        (group / "blkio.throttle.read_bps_device").write_text(f"{device} {bytes_of_second}")
        (group / "blkio.throttle.read_iops_device").write_text(f"{device} {limit.requests}")
    except OSError as error:
        raise _refused(error) from error


def _refused(error: OSError) -> SystemExit:
    return SystemExit(f"--throttle: {error}; run it as root on a machine with cgroup v1's blkio")


def _remove(group: Path) -> None:
    """Removes a group, unless a process is still in it, such as after Ctrl-C."""
    try:
        group.rmdir()
    except OSError as error:
        print(f"--throttle: {error}; remove the group with rmdir", file=sys.stderr)


def device_of(folder: Path) -> str:
    """MAJOR:MINOR of the disk that a folder is on, whose partitions have no limits of their own.

    Raises:
        SystemExit: it is on none.
    """
    number = folder.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        sys.exit(f"--throttle: {folder} is on no disk; run it in a folder on a disk")
    disk = device.resolve().parent if (device / "partition").exists() else device
    return (disk / "dev").read_text().strip()


def join(group: Path) -> None:
    """Moves this process with all its threads into a group."""
    (group / "cgroup.procs").write_text(str(os.getpid()))


def disk_reads(group: Path, device: str) -> DiskReads:
    """What a disk has read for a group so far.

    Args:
        group: of the processes.
        device: as of `device_of`. The disks below a logical volume have other lines.
    """
    requests = _reads(group / "blkio.throttle.io_serviced", device)
    return DiskReads(requests, _reads(group / "blkio.throttle.io_service_bytes", device))


def _reads(file: Path, device: str) -> int:
    # Its lines are `MAJOR:MINOR OPERATION NUMBER`, and last `Total NUMBER`. A disk without reads
    # has none.
    fields = (line.split() for line in file.read_text().splitlines())
    return sum(int(found[2]) for found in fields if found[:2] == [device, "Read"])


def drop_cache(folder: Path) -> None:
    """Removes the files of a folder from the page cache."""
    for path in folder.iterdir():
        file = os.open(path, os.O_RDONLY)
        try:
            # Only pages that are on the disk are removed.
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)

"""What `make bench-reading` reads, and the slow disk that it may read from."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from benchmarks.read_datasets import records_of
from benchmarks.throttled_disk import DiskLimit, DiskReads

from benchmarks import reading, throttled_disk
from imagenet_workloads.dataset import RECORD_IO, TF_RECORD, read_dataset
from support.sentences import says

IMAGES = 12


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """What a control group shows: two disks, of which one was written to as well."""
    folder = tmp_path / "group"
    folder.mkdir()
    served = "8:0 Read 12\n8:0 Write 7\n8:0 Total 19\n8:16 Read 30\nTotal 49\n"
    (folder / "blkio.throttle.io_serviced").write_text(served)
    (folder / "blkio.throttle.io_service_bytes").write_text(served.replace("12", "4096"))
    return folder


@pytest.mark.parametrize("format", [RECORD_IO, TF_RECORD])
def test_each_format_is_read(
    format: str, tmp_path: Path, group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BENCH", tmp_path)
    folder = records_of(tmp_path, 64, IMAGES, format)
    shards = read_dataset(folder).train.shards
    assert sum(shard.records for shard in shards) == IMAGES
    dropped: list[Path] = []
    monkeypatch.setattr(reading, "drop_cache", dropped.append)
    monkeypatch.setattr(reading, "device_of", lambda _: "8:0")

    crops = ("--random-resized-crop", "1", "--batch-size", "4", "--data-nthreads", "1")
    found = reading._read(["--dataset", str(folder), "--reader", "Ordered", *crops], group)

    assert found["mib"] >= sum(shard.bytes for shard in shards) / 2**20
    assert (found["disk requests"], found["disk mib"]) == (0, 0)
    assert found["speed"] > 0
    assert dropped == [folder, folder]
    assert (group / "cgroup.procs").read_text() == str(os.getpid())


def test_the_reads_of_the_limited_disk_count(group: Path) -> None:
    assert throttled_disk.disk_reads(group, "8:0") == DiskReads(12, 4096)
    assert throttled_disk.disk_reads(group, "8:16") == DiskReads(30, 30)
    assert throttled_disk.disk_reads(group, "253:0") == DiskReads(0, 0)


def test_the_limits_are_those_of_the_folder_s_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttled_disk, "device_of", lambda _: "8:16")
    removed: list[Path] = []
    # In a real one, the files go with their group.
    monkeypatch.setattr(Path, "rmdir", lambda group: removed.append(group))
    with throttled_disk.throttled_disk(tmp_path, DiskLimit(3, 50), root=tmp_path) as made:
        assert made.parent == tmp_path
        written = {path.name: path.read_text() for path in made.iterdir()}
    assert written == {
        "blkio.throttle.read_bps_device": "8:16 3145728",
        "blkio.throttle.read_iops_device": "8:16 50",
    }
    assert removed == [made]


def test_a_machine_without_the_controller_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttled_disk, "device_of", lambda _: "8:16")
    none = tmp_path / "none"
    with (
        pytest.raises(SystemExit, match=says("as root", "cgroup v1's blkio")),
        throttled_disk.throttled_disk(tmp_path, DiskLimit(3, 50), root=none),
    ):
        pass


def test_a_limit_that_the_kernel_refuses_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttled_disk, "device_of", lambda _: "8:16")

    def refuse(path: Path, text: str) -> int:
        raise OSError(errno.EINVAL, "Invalid argument", str(path))

    monkeypatch.setattr(Path, "write_text", refuse)
    with (
        pytest.raises(SystemExit, match=r"Invalid argument: .*read_bps_device"),
        throttled_disk.throttled_disk(tmp_path, DiskLimit(3, 50), root=tmp_path),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_has_processes_hides_no_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(throttled_disk, "device_of", lambda _: "8:16")
    # The files of the limits are in the way of rmdir, as a process is in a real group.
    with (
        pytest.raises(KeyboardInterrupt),
        throttled_disk.throttled_disk(tmp_path, DiskLimit(3, 50), root=tmp_path),
    ):
        raise KeyboardInterrupt
    assert "remove the group with rmdir" in capsys.readouterr().err


def test_a_folder_without_a_disk_is_named() -> None:
    with pytest.raises(SystemExit, match="/proc is on no disk"):
        throttled_disk.device_of(Path("/proc"))


def test_whole_files_leave_the_page_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advised = []

    def advise(file: int, *advice: int) -> None:
        advised.append((Path(f"/proc/self/fd/{file}").readlink().name, *advice))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    for name in ("train-00000.rec", "train-00000.idx"):
        (tmp_path / name).write_text(name)
    throttled_disk.drop_cache(tmp_path)
    dropped = (0, 0, os.POSIX_FADV_DONTNEED)
    assert sorted(advised) == [("train-00000.idx", *dropped), ("train-00000.rec", *dropped)]

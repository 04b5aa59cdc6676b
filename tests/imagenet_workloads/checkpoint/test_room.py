"""A full volume: the error and its remedy, and the room that a later attempt needs."""

import errno
import os
import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest

from imagenet_workloads.checkpoint.store import (
    ROOM_FILE,
    CheckpointStore,
    Identity,
    Position,
    size_of,
)
from imagenet_workloads.errors import VolumeFullError
from imagenet_workloads.files import write_output
from support.checkpoints import names, store, write


class Usage(NamedTuple):
    """What shutil.disk_usage returns, as far as it is used."""

    free: int


class MXNetError(RuntimeError):
    """What MXNet raises for any failure of its writer."""


@pytest.mark.parametrize(
    "error", [MXNetError("Check failed: (fwrite): "), OSError(errno.ENOSPC, "No space left")]
)
def test_a_full_volume_says_how_much_it_lacks_and_how_to_go_on(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store(tmp_path / "jobs" / "digits-6f3c")
    with made.begin(Position(1, 0)) as folder:
        (folder / "weights").write_bytes(bytes(5000))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=77))
    with pytest.raises(VolumeFullError) as caught, made.begin(Position(2, 0)) as folder:
        (folder / "weights").write_bytes(bytes(100))
        raise error
    said = str(caught.value)
    assert "No space left" in said
    assert re.search(r"a checkpoint needs 5,\d{3} bytes and 77 are free; enlarge", said)
    place = "jobs/digits-6f3c/attempts/r0/checkpoints/epoch-0001-batch-00000000"
    assert said.endswith(f"; a new job goes on with checkpoint.initFrom: {place}")
    assert names(made) == ["epoch-0001-batch-00000000"]
    with pytest.raises(VolumeFullError, match=r"no room for a checkpoint: .*initFrom: jobs/"):
        later_attempt(tmp_path / "jobs" / "digits-6f3c").require_room(90)


def later_attempt(output: Path) -> CheckpointStore:
    """The next attempt, as it begins."""
    found = store(output, attempt=1)
    found.refuse_later_attempt()
    return found


@pytest.mark.parametrize(("free", "has_room"), [(5999, False), (6000, True)])
def test_a_later_attempt_needs_what_the_newest_checkpoint_takes(
    free: int, has_room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(store(tmp_path), 1)
    (folder / "params").write_bytes(bytes(6000 - size_of(folder) + 5))
    assert size_of(folder) == 6000
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=free))
    later = later_attempt(tmp_path)
    with nullcontext() if has_room else pytest.raises(VolumeFullError, match="needs 6,000 bytes"):
        later.require_room(90)
    # No checkpoint follows the last epoch.
    later.require_room(1)


def test_a_later_attempt_needs_more_than_a_first_checkpoint_could_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=77))
    lacks = pytest.raises(VolumeFullError, match="needs more than 100 bytes and 77 are free")
    with lacks, made.begin(Position(1, 0)) as folder:
        (folder / "weights").write_bytes(bytes(100))
        raise OSError(errno.ENOSPC, "No space left")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=177))
    later = later_attempt(tmp_path)
    with pytest.raises(VolumeFullError, match="needs 178 bytes and 177 are free"):
        later.require_room(90)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=178))
    later.require_room(90)


def test_a_checkpoint_of_another_training_says_nothing_of_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store(tmp_path, identity=Identity("", "")), 1)
    (tmp_path / "attempts" / "r0" / ROOM_FILE).write_text("{")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=0))
    later_attempt(tmp_path).require_room(90)


def test_an_error_of_the_framework_stays_where_there_is_room(tmp_path: Path) -> None:
    with pytest.raises(MXNetError), store(tmp_path).begin(Position(1, 0)):
        raise MXNetError("shape mismatch")


def over_quota(*_: object) -> None:
    """What a write to a volume with an exhausted quota raises, where the volume itself has room."""
    raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def raise_mxnet_error(*_: object) -> None:
    raise MXNetError("Check failed: (fwrite): ")


def test_an_exhausted_quota_is_a_full_volume(tmp_path: Path) -> None:
    made = store(tmp_path)
    with (
        pytest.raises(VolumeFullError, match="quota exceeded: a checkpoint needs more than 100 by"),
        made.begin(Position(1, 0)) as folder,
    ):
        (folder / "weights").write_bytes(bytes(100))
        over_quota()
    assert names(made) == []
    # The free bytes of the volume say nothing of the quota, so the next attempt tries.
    later_attempt(tmp_path).require_room(90)
    with pytest.raises(VolumeFullError, match="quota exceeded; enlarge"):
        write_output(tmp_path / "model.params", over_quota)


def test_a_writer_that_fails_for_a_quota_without_saying_so_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MXNetError):
        write_output(tmp_path / "model.params", raise_mxnet_error)
    made = store(tmp_path)
    with (
        pytest.raises(VolumeFullError, match="quota exceeded: a checkpoint needs"),
        monkeypatch.context() as patch,
        made.begin(Position(1, 0)),
    ):
        # NFS refuses the bytes at the sync, not at the write.
        patch.setattr(os, "fsync", over_quota)
        raise_mxnet_error()
    later_attempt(tmp_path).require_room(90)
    monkeypatch.setattr(os, "fsync", over_quota)
    with pytest.raises(VolumeFullError, match="quota exceeded; enlarge"):
        write_output(tmp_path / "model.params", raise_mxnet_error)

"""The checkpoints of a training on its output volume: written, found, pruned, damaged."""

import errno
import json
import logging
import os
import re
import shutil
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest

from imagenet_spec.names import CHECKPOINT_FILE
from imagenet_workloads.checkpoint import (
    ROOM_FILE,
    CheckpointManifest,
    CheckpointStore,
    Identity,
    Position,
    size_of,
)
from imagenet_workloads.errors import InputError, StorageError, SupersededError, VolumeFullError
from imagenet_workloads.files import write_output
from support.checkpoints import OURS, names, store, write

TEMPORARY = ".tmp-0011aabb0011aabb"


def test_nothing_is_found_where_nothing_was_written(tmp_path: Path) -> None:
    assert store(tmp_path / "jobs" / "digits").newest() is None


def test_what_was_written_is_found_again(tmp_path: Path) -> None:
    folder = write(store(tmp_path), 3, 17)
    found = store(tmp_path).newest()
    assert found is not None
    assert found.folder == folder == tmp_path / "attempts/r0/checkpoints/epoch-0003-batch-00000017"
    assert found.position == Position(epoch=3, batch=17)
    assert found.manifest.identity == OURS
    assert set(found.manifest.files) == {"params", "states/rank-0"}
    assert (found.folder / "params").read_text() == "w 3 17"


def test_the_manifest_is_as_documented(tmp_path: Path) -> None:
    document = json.loads((write(store(tmp_path, attempt=2), 0, 5) / CHECKPOINT_FILE).read_text())
    assert document["version"] == 1
    assert document["identity"] == {"jobUid": "6d1f", "specHash": "ab12"}
    assert (document["attempt"], document["epoch"], document["batch"]) == (2, 0, 5)
    assert document["files"]["states/rank-0"] == {
        "bytes": 256,
        "sha256": "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880",
    }


def test_the_furthest_counts_over_all_attempts_up_to_ones_own(tmp_path: Path) -> None:
    for attempt, epoch, batch in ((0, 1, 0), (0, 2, 0), (1, 2, 50), (1, 2, 7), (10, 9, 0)):
        write(store(tmp_path, attempt), epoch, batch)
    expected = {0: (2, 0), 1: (2, 50), 9: (2, 50), 10: (9, 0)}
    for attempt, (epoch, batch) in expected.items():
        found = store(tmp_path, attempt).newest()
        assert found is not None
        assert found.position == Position(epoch, batch)


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        # Another batch size: attempt 1 was nearly through its epoch of fewer batches.
        ((700, 5004), (620, 626), 620),
        ((4900, 5004), (500, 626), 4900),
        # Equally far: the later attempt's.
        ((2502, 5004), (313, 626), 313),
        # One has not noted it: batches are compared.
        ((700, None), (620, 626), 700),
        ((700, 5004), (620, None), 700),
    ],
)
def test_the_furthest_is_so_by_its_share_of_the_epoch(
    tmp_path: Path, older: tuple[int, int | None], newer: tuple[int, int | None], expected: int
) -> None:
    job = tmp_path / "job"
    for attempt, (batch, length) in enumerate((older, newer)):
        with store(job, attempt).begin(Position(0, batch)) as folder:
            (folder / "params").write_text("w")
            if length is not None:
                (folder / "training.json").write_text(json.dumps({"batchesPerEpoch": length}))
    found = store(job, 2).newest()
    assert found is not None
    assert found.position == Position(0, expected)
    named = store(tmp_path / "other").newest(init_from=job)
    assert named is not None
    assert named.position == Position(0, expected)


def test_names_sort_by_number_beyond_their_padding(tmp_path: Path) -> None:
    checkpoints = store(tmp_path, keep=9)
    for epoch in (9999, 10000):
        write(checkpoints, epoch)
    found = checkpoints.newest()
    assert found is not None
    assert found.position.epoch == 10000


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        (Identity("other", "ab12"), "of another job, uid 'other' (this is '6d1f')"),
        (Identity("6d1f", "ffff"), "of this job with another spec, hash 'ffff' (this is 'ab12')"),
    ],
)
def test_another_training_s_is_passed_over_with_a_reason(
    tmp_path: Path, identity: Identity, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = write(store(tmp_path, identity=identity), 5)
    assert store(tmp_path).newest() is None
    assert f"checkpoint {foreign} is ignored: {reason}" in caplog.text
    own = write(store(tmp_path), 1)
    found = store(tmp_path).newest()
    assert found is not None
    assert found.folder == own


@pytest.mark.parametrize("named", ["checkpoint", "attempt", "job"])
def test_init_from_names_another_training_s(tmp_path: Path, named: str) -> None:
    other = store(tmp_path / "other", identity=Identity("other", "ffff"))
    write(other, 4)
    newest = write(other, 5)
    path = {"checkpoint": newest, "attempt": other.attempt_folder, "job": tmp_path / "other"}[named]
    found = store(tmp_path / "own").newest(init_from=path)
    assert found is not None
    assert found.folder == newest
    assert found.manifest.identity == Identity("other", "ffff")


def test_once_the_training_has_its_own_init_from_is_done_with(tmp_path: Path) -> None:
    gone = tmp_path / "other"
    own = write(store(tmp_path), 0, 1)
    found = store(tmp_path, attempt=1).newest(init_from=gone)
    assert found is not None
    assert found.folder == own


def test_an_init_from_without_a_complete_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"initFrom: .* has no complete checkpoint"):
        store(tmp_path / "own").newest(init_from=tmp_path)
    folder = write(store(tmp_path / "other"), 1)
    (folder / "params").unlink()
    with pytest.raises(InputError, match="params: cannot be read: No such file"):
        store(tmp_path / "own").newest(init_from=folder)
    with pytest.raises(InputError, match="has no complete checkpoint"):
        store(tmp_path / "own").newest(init_from=tmp_path / "other")


def cut_off(folder: Path) -> None:
    os.truncate(folder / "params", 2)


def flip_a_bit(folder: Path) -> None:
    content = bytearray((folder / "states/rank-0").read_bytes())
    content[100] ^= 1
    (folder / "states/rank-0").write_bytes(content)


def lose_a_file(folder: Path) -> None:
    (folder / "params").unlink()


def lose_the_manifest(folder: Path) -> None:
    (folder / CHECKPOINT_FILE).unlink()


def cut_off_the_manifest(folder: Path) -> None:
    os.truncate(folder / CHECKPOINT_FILE, 30)


def lead_out_of_the_folder(folder: Path) -> None:
    document = json.loads((folder / CHECKPOINT_FILE).read_text())
    document["files"] = {"../../secret": {"bytes": 0, "sha256": ""}}
    (folder / CHECKPOINT_FILE).write_text(json.dumps(document))


def come_from_the_future(folder: Path) -> None:
    document = json.loads((folder / CHECKPOINT_FILE).read_text())
    (folder / CHECKPOINT_FILE).write_text(json.dumps({**document, "version": 2}))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut_off, "params: has 2 bytes, not 5"),
        (flip_a_bit, "rank-0: its SHA-256 is not that of the manifest"),
        (lose_a_file, "params: cannot be read: No such file"),
        (lose_the_manifest, "manifest.json: no such file"),
        (cut_off_the_manifest, "manifest.json: is not valid JSON"),
        (lead_out_of_the_folder, "files.../../secret must be a path within the folder"),
        (come_from_the_future, "version is 2, and this program reads 1"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_damaged_one_is_passed_over_and_the_one_before_it_used(
    tmp_path: Path, damage: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    older = write(store(tmp_path), 1)
    newer = write(store(tmp_path), 2)
    assert callable(damage)
    damage(newer)
    found = store(tmp_path).newest()
    assert found is not None
    assert found.folder == older
    assert f"checkpoint {newer} is ignored: damaged:" in caplog.text
    assert reason in caplog.text


def test_foreign_files_and_half_written_folders_are_not_looked_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write(store(tmp_path), 1)
    copy = folder.parent / ".epoch-0009-batch-00000000.tmp-0011aabb0011aabb"
    folder.rename(copy)
    for name in ("epoch-9", "epoch-0009-batch-00000000.bak", "lost+found"):
        (folder.parent / name).mkdir()
    for name in ("r", "r-1", "r01", "rX"):
        (tmp_path / "attempts" / name / "checkpoints").mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        assert store(tmp_path, attempt=99).newest() is None
    assert caplog.text == ""


def test_what_earlier_attempts_left_incomplete_is_deleted(tmp_path: Path) -> None:
    left = [write(store(tmp_path, attempt), 1).parents[1] for attempt in range(3)]
    for attempt in left:
        (attempt / f".model-0003.params{TEMPORARY}").write_text("half")
        (attempt / "checkpoints" / f".epoch-0009-batch-00000000{TEMPORARY}").mkdir()
    own = left[0] / ".notes.tmp-mine"
    own.mkdir()
    store(tmp_path, attempt=1).sweep()
    assert [len(list(attempt.rglob(f".*{TEMPORARY}"))) for attempt in left] == [0, 2, 2]
    assert own.exists()
    assert len(list(tmp_path.rglob("epoch-0001*"))) == 3


def test_an_attempt_that_leads_elsewhere_is_not_swept(tmp_path: Path) -> None:
    other = write(store(tmp_path / "other"), 1).parents[1]
    (other / f".model{TEMPORARY}").touch()
    (tmp_path / "attempts").mkdir()
    (tmp_path / "attempts" / "r0").symlink_to(other)
    store(tmp_path, attempt=1).sweep()
    assert (other / f".model{TEMPORARY}").exists()


def test_a_checkpoint_that_a_later_attempt_swept_is_superseded(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    with pytest.raises(SupersededError), checkpoints.begin(Position(1, 0)):
        later = store(tmp_path, attempt=1)
        later.refuse_later_attempt()
        later.sweep()


def test_nothing_is_left_of_a_block_that_raises(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    with pytest.raises(RuntimeError, match="out of memory"), checkpoints.begin(Position(1, 0)) as f:
        (f / "params").write_text("half")
        raise RuntimeError("out of memory")
    assert names(checkpoints) == []
    with pytest.raises(SystemExit), checkpoints.begin(Position(1, 0)) as f:
        (f / "params").write_text("half")
        raise SystemExit(143)
    assert names(checkpoints) == []


def test_a_full_volume_is_named(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    with pytest.raises(StorageError) as caught, checkpoints.begin(Position(1, 0)) as folder:
        (folder / "params").symlink_to("/dev/full")
        (folder / "params").write_text("much")
    assert f"cannot write checkpoint {checkpoints.attempt_folder}" in str(caught.value)
    assert "No space left on device" in str(caught.value)
    assert names(checkpoints) == []


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "attempts").write_text("a file in the way")
    with pytest.raises(StorageError, match=f"cannot create {tmp_path}/attempts/r0 as user"):
        store(tmp_path).refuse_later_attempt()


def test_pruning_keeps_the_newest_of_its_own_attempt(tmp_path: Path) -> None:
    write(store(tmp_path, attempt=0), 0, 1)
    checkpoints = store(tmp_path, attempt=1, keep=2)
    for epoch in range(1, 6):
        write(checkpoints, epoch)
    assert names(checkpoints) == ["epoch-0004-batch-00000000", "epoch-0005-batch-00000000"]
    assert names(store(tmp_path, attempt=0)) == ["epoch-0000-batch-00000001"]


def test_pruning_leaves_other_trainings_and_later_positions_alone(tmp_path: Path) -> None:
    foreign = write(store(tmp_path, identity=Identity("other", "")), 1)
    damaged = write(store(tmp_path), 9)
    lose_a_file(damaged)
    for epoch in (2, 3, 4):
        write(store(tmp_path, keep=1), epoch)
    kept = {foreign.name, damaged.name, "epoch-0004-batch-00000000"}
    assert set(names(store(tmp_path))) == kept


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 given, at least 1"):
        store(tmp_path, keep=0)


def test_a_complete_one_at_the_same_position_stays(tmp_path: Path) -> None:
    folder = write(store(tmp_path), 1, content="first")
    inode = folder.stat().st_ino
    write(store(tmp_path), 1, content="second")
    assert folder.stat().st_ino == inode
    assert (folder / "params").read_text() == "first 1 0"
    assert names(store(tmp_path)) == [folder.name]


def test_a_damaged_or_foreign_one_at_the_same_position_is_replaced(tmp_path: Path) -> None:
    folder = write(store(tmp_path), 1, content="first")
    cut_off(folder)
    write(store(tmp_path), 1, content="second")
    assert (folder / "params").read_text() == "second 1 0"
    write(store(tmp_path, identity=Identity("", "")), 1, content="third")
    assert (folder / "params").read_text() == "third 1 0"
    assert names(store(tmp_path)) == [folder.name]


def test_a_later_attempt_ends_an_earlier_one(tmp_path: Path) -> None:
    early = store(tmp_path, attempt=1)
    early.refuse_later_attempt()
    write(early, 1)
    store(tmp_path, attempt=2).refuse_later_attempt()
    message = f"attempt 1 ends: {tmp_path / 'attempts/r2'} exists"
    with pytest.raises(SupersededError, match=message):
        early.refuse_later_attempt()
    with pytest.raises(SupersededError, match=message):
        write(early, 2)
    assert names(early) == ["epoch-0001-batch-00000000"]


def test_an_attempt_announces_itself(tmp_path: Path) -> None:
    checkpoints = store(tmp_path / "jobs" / "digits-6d1f", attempt=3)
    checkpoints.refuse_later_attempt()
    assert checkpoints.attempt_folder.is_dir()
    checkpoints.refuse_later_attempt()


def test_every_file_may_be_read_by_whoever_may_read_the_volume(tmp_path: Path) -> None:
    folder = write(store(tmp_path), 1)
    for path in (folder, folder / CHECKPOINT_FILE, folder / "params"):
        assert path.stat().st_mode & stat.S_IRUSR


def test_a_manifest_reads_back_as_it_was_written(tmp_path: Path) -> None:
    folder = write(store(tmp_path, attempt=4), 2, 3)
    manifest = CheckpointManifest.read(folder)
    (folder / CHECKPOINT_FILE).unlink()
    assert CheckpointManifest.describe(folder, OURS, 4, Position(2, 3)) == manifest


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
    assert re.search(r"needs 5,\d{3} bytes.* 77 are free.* enlarge", said)
    place = "jobs/digits-6f3c/attempts/r0/checkpoints/epoch-0001-batch-00000000"
    assert said.endswith(f" checkpoint.initFrom: {place}")
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
    # No checkpoint follows the last epoch, nor any other one after which training may end.
    later.require_room(1)
    later.require_room(90, may_end_before=True)


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

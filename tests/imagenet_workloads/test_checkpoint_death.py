"""Kills a real process at every file operation of a checkpoint, and in the midst of a write."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from imagenet_workloads.checkpoint import CheckpointStore, Identity, Position
from support.deaths import die_before
from support.processes import wait_until

OURS = Identity(job_uid="6d1f", spec_hash="ab12")


def write(output: Path, epoch: int, keep: int = 1) -> None:
    store = CheckpointStore(output, 0, OURS, keep)
    store.refuse_later_attempt()
    store.sweep()
    with store.begin(Position(epoch, 0)) as folder:
        (folder / "params").write_text(f"weights of epoch {epoch}")
        (folder / "states").write_text(f"momenta of epoch {epoch}")


def names(output: Path) -> list[str]:
    return [path.name for path in (output / "attempts/r0/checkpoints").iterdir()]


def write_and_die(output: Path, epoch: int, operation: int) -> bool:
    """Writes a checkpoint in a process that dies before an operation; False if it survives."""
    child = os.fork()
    if child == 0:
        die_before(operation)
        write(output, epoch)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def check_that_one_is_whole(output: Path, epochs: set[int]) -> int:
    """The newest checkpoint holds one epoch's content, one of `epochs`; returns which."""
    found = CheckpointStore(output, 0, OURS, 1).newest()
    assert found is not None
    epoch = found.position.epoch
    assert epoch in epochs
    assert (found.folder / "params").read_text() == f"weights of epoch {epoch}"
    assert (found.folder / "states").read_text() == f"momenta of epoch {epoch}"
    return epoch


def test_killed_before_any_operation_the_old_or_the_new_one_is_whole(tmp_path: Path) -> None:
    operation = 0
    seen = set()
    while True:
        output = tmp_path / str(operation)
        write(output, 1)
        died = write_and_die(output, 2, operation)
        seen.add(check_that_one_is_whole(output, {1, 2}))
        for path in (output / "attempts/r0/checkpoints").glob("epoch-*"):
            assert (path / "manifest.json").exists(), "half a checkpoint is visible"
        # The next process goes on as if nothing had happened, and clears the rest away.
        write(output, 3)
        assert check_that_one_is_whole(output, {3}) == 3
        assert names(output) == ["epoch-0003-batch-00000000"]
        if not died:
            break
        operation += 1
    assert seen == {1, 2}
    assert operation > 20


WRITER = """
import sys
from pathlib import Path
from imagenet_workloads.checkpoint import CheckpointStore, Identity, Position

store = CheckpointStore(Path(sys.argv[1]), 0, Identity("6d1f", "ab12"), 1)
with store.begin(Position(2, 0)) as folder, (folder / "params").open("wb", buffering=0) as file:
    for _ in range(1_000_000):
        file.write(bytes(65536))
        file.seek(0)
"""


def is_begun(folder: Path) -> bool:
    return any(path.stat().st_size for path in folder.glob(".*.tmp-*/params"))


@pytest.mark.parametrize("last", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_the_midst_of_a_write_the_old_one_stays(
    tmp_path: Path, last: signal.Signals
) -> None:
    write(tmp_path, 1)
    folder = tmp_path / "attempts/r0/checkpoints"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    wait_until(lambda: is_begun(folder) or process.poll() is not None, "a checkpoint is begun")
    process.send_signal(last)
    assert process.wait(timeout=60) == -last
    check_that_one_is_whole(tmp_path, {1})
    write(tmp_path, 2)
    check_that_one_is_whole(tmp_path, {2})
    assert names(tmp_path) == ["epoch-0002-batch-00000000"]

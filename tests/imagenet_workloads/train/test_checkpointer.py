"""When a checkpoint is written, and by whom."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from imagenet_workloads.checkpoint import (
    CheckpointStore,
    Identity,
    Position,
    read_batches_per_epoch,
    read_images,
)
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import StorageError, SupersededError
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry.server import Registry
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train import checkpointer
from imagenet_workloads.train.checkpointer import USUAL_STEPS, Checkpointer, Stalls
from imagenet_workloads.train.command_line import parse
from imagenet_workloads.train.receipts import Launch, Receipt, Receipts, read_chain
from imagenet_workloads.train.reporter import Reporter
from imagenet_workloads.train.validation_history import ValidationHistory
from support.deaths import die_before
from support.framework_doubles import Alone, Images, Learner, Weights
from support.sentences import assert_says


class Averaging(Learner):
    """A learner that counts how often its statistics were averaged, and what it was copied as."""

    def __init__(self) -> None:
        self.averaged, self.learned = 0, b"0"
        self.may_write = threading.Event()
        self.may_write.set()

    def average_statistics(self) -> None:
        self.averaged += 1

    def snapshot(self) -> "Copied":
        return Copied(self.learned, self.may_write)


@dataclass
class Copied(Weights):
    learned: bytes
    may_write: threading.Event

    def save(self, folder: Path) -> None:
        assert self.may_write.wait(60)
        (folder / "weights").write_bytes(self.learned)


class Scene:
    """A checkpointer of a training of 5 epochs of 10 batches, and its clock."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        rank: int = 0,
        workers: int = 1,
        ordered_batch: int | None = None,
        ledger: "SlowLedger | None" = None,
        learner: Averaging | None = None,
    ) -> None:
        self.now, self.folder = 1000.0, folder
        self.termination = Termination(grace=1)
        options = parse([*arguments, "--checkpoint-keep", "9"], {})
        self.registry, self.learner = Registry(Environment()), learner or Averaging()
        self.checkpointer = Checkpointer(
            options.output,
            CheckpointStore(folder, 0, Identity("u", "h"), keep=9),
            self.learner,
            Alone(rank, workers),
            Reporter(TrainingRecorder(self.registry), None, 20, 10),
            self.termination,
            Images(ordered_batch),
            last_epoch=5,
            clock=lambda: self.now,
            ledger=ledger,  # type: ignore[arg-type]
            receipts=Receipts(0, 1, Launch([], 1), 0, 10),
            history=ValidationHistory.of(options),
        )

    def metric(self, name: str) -> float | None:
        labels = {"imagenet_job": "local", "namespace": "default", "role": "", "attempt": ""}
        return self.registry.exported.get_sample_value(f"imagenet_train_{name}", labels)

    def checkpoints(self) -> list[str]:
        folders = (self.folder / "attempts/r0/checkpoints").glob("*")
        return sorted(
            folder.name.removesuffix("-batch-00000000")
            for folder in folders
            if not folder.name.startswith(".")
        )


class SlowLedger:
    """A ledger whose disk takes its time."""

    def __init__(self) -> None:
        self.may_sync = threading.Event()

    def sync(self) -> None:
        assert self.may_sync.wait(60)


@pytest.mark.parametrize(
    ("every", "written"),
    [
        ("1", ["epoch-0001", "epoch-0002", "epoch-0003", "epoch-0004", "epoch-0005"]),
        ("2", ["epoch-0002", "epoch-0004", "epoch-0005"]),
        ("0", ["epoch-0005"]),
    ],
)
def test_every_so_many_epochs_and_at_the_end(
    tmp_path: Path, every: str, written: list[str]
) -> None:
    scene = Scene(tmp_path, "--checkpoint-every-epochs", every)
    for epoch in range(1, 6):
        scene.checkpointer.after_epoch(epoch)
    scene.checkpointer.finish()
    assert scene.checkpoints() == written


def test_the_metrics_have_the_newest_checkpoint(tmp_path: Path) -> None:
    """The operator reads it, for the message of a job that fails later."""
    scene = Scene(tmp_path, "--checkpoint-every-epochs", "2")
    found = []
    for epoch in range(1, 5):
        scene.checkpointer.after_epoch(epoch)
        scene.checkpointer.finish()
        found.append(scene.metric("checkpoint_epoch"))
    assert found == [None, 2.0, 2.0, 4.0]


def test_seconds_count_from_the_last_checkpoint(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "--checkpoint-every-seconds", "60")
    scene.now += 59
    assert not scene.checkpointer.is_due()
    scene.now += 1
    assert scene.checkpointer.is_due()
    scene.checkpointer.within_epoch(Position(0, 3))
    assert not scene.checkpointer.is_due()
    scene.now += 59
    scene.checkpointer.after_epoch(1)
    scene.now += 59
    assert not scene.checkpointer.is_due()
    scene.now += 1
    assert scene.checkpointer.is_due()
    scene.checkpointer.finish()
    assert scene.checkpoints() == ["epoch-0000-batch-00000003", "epoch-0001"]


@pytest.mark.parametrize(("ordered_batch", "images"), [(None, None), (7, 21), (40, 95)])
def test_a_checkpoint_has_the_images_of_an_order(
    tmp_path: Path, ordered_batch: int | None, images: int | None
) -> None:
    scene = Scene(tmp_path, ordered_batch=ordered_batch)
    scene.checkpointer.within_epoch(Position(0, 3))
    scene.checkpointer.finish()
    (folder,) = (tmp_path / "attempts/r0/checkpoints").iterdir()
    assert (read_batches_per_epoch(folder), read_images(folder)) == (10, images)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_receipt_of_ten_steps_later_needs_every_rank_and_rank_0_writes_it(
    tmp_path: Path, rank: int
) -> None:
    scene = Scene(tmp_path, rank=rank)
    scene.checkpointer.within_epoch(Position(0, 3))
    averaged = scene.learner.averaged
    positions = [*(Position(0, batch) for batch in range(4, 10)), Position(1, 0), Position(1, 1)]
    after_step = scene.checkpointer.after_step
    assert not any(after_step(position, synced=True) for position in positions)
    assert after_step(Position(1, 3), synced=True)
    assert scene.learner.averaged == averaged + 1
    scene.checkpointer.finish()
    if rank == 0:
        written = read_chain(tmp_path / "attempts/r0/receipts.json", "receipts")
        assert [one.later and one.later.position for one in written] == [Position(1, 3)]
        assert written == list(scene.checkpointer.receipts)
    else:
        assert list(tmp_path.iterdir()) == []


def test_without_seconds_it_is_every_ten_minutes_and_seldom_where_it_costs_much(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    scene.now += 599
    assert not scene.checkpointer.is_due()
    scene.now += 1
    assert scene.checkpointer.is_due()
    given = Scene(tmp_path, "--checkpoint-every-seconds", "60")
    for one in (scene.checkpointer, given.checkpointer):
        one.time(0.5, touched=False)
        one.within_epoch(Position(0, 3))
        one.time(4.5, touched=True)
    assert (scene.checkpointer.interval, given.checkpointer.interval) == (800, 60)


def test_training_goes_on_while_a_checkpoint_is_written_as_it_was_copied(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learner.may_write.clear()
    scene.checkpointer.within_epoch(Position(0, 3))
    scene.learner.learned = b"later"
    assert not scene.checkpointer.after_step(Position(0, 4), synced=True)
    assert scene.checkpointer.is_busy
    assert scene.checkpoints() == []
    scene.learner.may_write.set()
    scene.checkpointer.finish()
    assert not scene.checkpointer.is_busy
    (folder,) = (tmp_path / "attempts/r0/checkpoints").iterdir()
    assert (folder / "weights").read_bytes() == b"0"


def test_the_next_checkpoint_waits_for_the_one_in_flight_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer, "PATIENCE", 0.01)
    scene = Scene(tmp_path)
    scene.learner.may_write.clear()
    scene.checkpointer.within_epoch(Position(0, 3))

    class Said(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            scene.learner.may_write.set()

    with caplog.at_level(logging.INFO):
        said = Said()
        logging.getLogger(checkpointer.__name__).addHandler(said)
        scene.checkpointer.within_epoch(Position(0, 4))
        logging.getLogger(checkpointer.__name__).removeHandler(said)
    assert_says(caplog.messages[0], "waits", "checkpoint")
    assert scene.checkpoints()[:1] == ["epoch-0000-batch-00000003"]
    scene.checkpointer.finish()
    assert scene.checkpoints() == ["epoch-0000-batch-00000003", "epoch-0000-batch-00000004"]


def test_rank_0_names_a_checkpoint_once_the_ledgers_of_all_are_synced(tmp_path: Path) -> None:
    scene = Scene(tmp_path, workers=2)
    scene.checkpointer.within_epoch(Position(0, 3))
    for batch in (4, 5):
        scene.checkpointer.after_step(Position(0, batch), synced=False)
    assert scene.checkpointer.is_busy
    assert scene.checkpoints() == []
    scene.checkpointer.after_step(Position(0, 6), synced=True)
    scene.checkpointer.close()
    assert scene.checkpoints() == ["epoch-0000-batch-00000003"]


def test_a_rank_says_when_its_ledger_is_synced(tmp_path: Path) -> None:
    ledger = SlowLedger()
    scene = Scene(tmp_path, rank=1, workers=2, ledger=ledger)
    assert scene.checkpointer.is_synced
    scene.checkpointer.within_epoch(Position(0, 3))
    assert not scene.checkpointer.is_synced
    ledger.may_sync.set()
    scene.checkpointer.finish()
    assert scene.checkpointer.is_synced


@pytest.mark.parametrize(("workers", "remain"), [(1, ["epoch-0000-batch-00000003"]), (2, [])])
def test_after_an_error_of_training_a_checkpoint_is_completed_unless_it_needs_others(
    tmp_path: Path, workers: int, remain: list[str]
) -> None:
    scene = Scene(tmp_path, workers=workers)
    scene.checkpointer.within_epoch(Position(0, 3))
    scene.checkpointer.close()
    assert [path.name for path in (tmp_path / "attempts/r0/checkpoints").iterdir()] == remain


def test_a_rank_whose_ledger_cannot_be_synced_does_not_say_that_it_is(tmp_path: Path) -> None:
    class Full(SlowLedger):
        def sync(self) -> None:
            raise StorageError("no room")

    scene = Scene(tmp_path, rank=1, workers=2, ledger=Full())
    scene.checkpointer.within_epoch(Position(0, 3))
    wait(scene.checkpointer._in_flight)
    assert not scene.checkpointer.is_synced
    with pytest.raises(StorageError, match="no room"):
        scene.checkpointer.after_step(Position(0, 4), synced=False)


def test_a_checkpoint_before_the_end_of_an_epoch_gets_its_name_before_validation(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, "--checkpoint-every-epochs", "2", workers=2)
    scene.checkpointer.within_epoch(Position(0, 9))
    scene.checkpointer.after_epoch(1)
    scene.checkpointer.close()
    assert scene.checkpoints() == ["epoch-0000-batch-00000009"]


def test_what_is_saved_between_two_epochs_is_a_stall(tmp_path: Path) -> None:
    class Slow(Averaging):
        def snapshot(self) -> Copied:
            scene.now += 2
            return super().snapshot()

    scene = Scene(tmp_path, learner=Slow())
    scene.checkpointer.after_epoch(1)
    scene.checkpointer.finish()
    assert scene.checkpointer.stalls.mean == 2
    assert scene.metric("checkpoint_stall_seconds") == 2


def test_a_write_that_needs_no_peer_has_the_whole_grace_period(tmp_path: Path) -> None:
    """After a signal, a worker whose peers are gone ends at once otherwise."""
    scene = Scene(tmp_path, workers=2)
    scene.learner.may_write.clear()
    is_writing = scene.termination.is_writing
    assert not is_writing()
    scene.checkpointer.within_epoch(Position(0, 3))
    assert not is_writing()
    scene.checkpointer.after_step(Position(0, 4), synced=True)
    assert is_writing()
    scene.learner.may_write.set()
    scene.checkpointer.close()
    assert not is_writing()


class Deadly(Averaging):
    """A learner whose copies kill the process when they have written so many bytes."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.last = last

    def snapshot(self) -> "Deadly":  # type: ignore[override]
        return self

    def save(self, folder: Path) -> None:
        with (folder / "weights").open("wb", buffering=0) as file:
            for number in range(self.last):
                file.write(bytes([number]))
        os.kill(os.getpid(), signal.SIGKILL)


def test_killed_at_any_byte_of_a_write_beside_training_the_former_checkpoint_is_whole(
    tmp_path: Path,
) -> None:
    save(tmp_path, 3)
    for last in range(100):
        assert dies(partial(save, tmp_path, 4, Deadly(last)))
        assert newest(tmp_path) == Position(0, 3)


def test_killed_before_any_operation_of_a_write_beside_training_one_of_two_is_whole(
    tmp_path: Path,
) -> None:
    """And so is the chain of receipts."""
    seen, operation = set(), 0
    while True:
        output = tmp_path / str(operation)
        save(output, 3)

        def killed(output: Path = output, operation: int = operation) -> None:
            die_before(operation)
            save(output, 4)

        has_died = dies(killed)
        seen.add(newest(output))
        if not has_died:
            break
        operation += 1
    assert seen == {Position(0, 3), Position(0, 4)}
    assert operation > 30


def save(output: Path, batch: int, learner: Averaging | None = None) -> None:
    scene = Scene(output, learner=learner)
    scene.checkpointer.within_epoch(Position(0, batch))
    scene.checkpointer.after_step(Position(1, batch), synced=True)
    scene.checkpointer.finish()
    scene.checkpointer.close()


def dies(call: Callable[[], None]) -> bool:
    """Call it in a process of its own; whether that is killed."""
    if (child := os.fork()) == 0:
        try:
            call()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def newest(output: Path) -> Position:
    """The position of the newest complete checkpoint, whose files have their checksums."""
    found = CheckpointStore(output, 1, Identity("u", "h"), keep=9).newest()
    assert found is not None
    assert (found.folder / "weights").read_bytes() == b"0"
    assert Receipt.of(found.folder).position == found.position
    return found.position


def test_an_error_of_the_write_ends_training_at_its_next_step(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.checkpointer.within_epoch(Position(0, 3))
    scene.checkpointer.finish()
    (tmp_path / "attempts/r1").mkdir()
    scene.checkpointer.within_epoch(Position(0, 4))
    with pytest.raises(SupersededError, match="r1 exists"):
        while True:
            scene.checkpointer.after_step(Position(0, 5), synced=True)


def test_an_error_of_the_write_is_said_beside_that_of_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(tmp_path)
    (tmp_path / "attempts/r1").mkdir(parents=True)
    scene.checkpointer.within_epoch(Position(0, 4))
    scene.checkpointer.close()
    assert "r1 exists" in caplog.text


def test_only_rank_0_writes_and_only_its_clock_counts(tmp_path: Path) -> None:
    prefix = tmp_path / "given"
    scene = Scene(
        tmp_path, "--checkpoint-every-seconds", "1", "--model-prefix", str(prefix), rank=1
    )
    scene.now += 100
    assert not scene.checkpointer.is_due()
    scene.checkpointer.within_epoch(Position(0, 3))
    scene.checkpointer.after_epoch(5)
    assert list(tmp_path.iterdir()) == []


def test_the_model_is_exported_every_save_period(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "--model-prefix", str(tmp_path / "given"), "--save-period", "2")
    for epoch in range(1, 6):
        scene.checkpointer.after_epoch(epoch)
    assert sorted(path.name for path in tmp_path.glob("given*")) == [
        "given-0002.params",
        "given-0004.params",
    ]


def test_an_export_between_two_epochs_is_a_phase_of_its_own(tmp_path: Path) -> None:
    scene = Scene(
        tmp_path, "--model-prefix", str(tmp_path / "given"), "--checkpoint-every-epochs", "0"
    )
    scene.checkpointer.after_epoch(1)
    phases = {
        sample.labels["phase"]: sample.value
        for family in scene.registry.exported.collect()
        for sample in family.samples
        if sample.name == "imagenet_train_phase"
    }
    assert phases == {"exporting": 1}


def test_a_stall_is_what_touched_steps_take_above_the_median_of_the_others() -> None:
    stalls = Stalls()
    for seconds in (0.25, 0.5, 0.75):
        stalls.step(seconds, touched=False)
    stalls.checkpoint()
    for seconds in (1.5, 0.25, 0.75):
        stalls.step(seconds, touched=True)
    assert stalls.mean == 1.0
    stalls.checkpoint()
    assert stalls.mean == 0.5


def test_a_usual_step_is_one_of_the_last() -> None:
    stalls = Stalls()
    stalls.checkpoint()
    for seconds in (8.0, 1.0):
        for _ in range(USUAL_STEPS):
            stalls.step(seconds, touched=False)
    stalls.step(3.0, touched=True)
    assert stalls.mean == 2.0


def test_steps_that_are_shorter_by_chance_make_up_for_longer_ones() -> None:
    stalls = Stalls()
    for seconds in (0.25, 0.5, 0.75):
        stalls.step(seconds, touched=False)
    for seconds in (0.25, 0.5, 0.75, 0.25):
        stalls.checkpoint()
        stalls.step(seconds, touched=True)
    assert stalls.mean == 0.25 / 4


def test_time_between_two_epochs_counts_whole() -> None:
    stalls = Stalls()
    stalls.checkpoint()
    stalls.held(2.0)
    assert stalls.mean == 2.0


def test_without_a_checkpoint_there_is_no_stall() -> None:
    assert Stalls().mean is None


def test_the_first_step_has_no_usual_one_to_compare_with() -> None:
    stalls = Stalls()
    stalls.checkpoint()
    stalls.step(60.0, touched=True)
    assert stalls.mean == 0.0

"""A delay of a known length lands in its phase of the account, and in no other.

The trainer and its loop are the real ones. Their clock stands still but for the delays and a second
for each step, so that the account has exactly these.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from imagenet_workloads.checkpoint import CheckpointStore, Identity
from imagenet_workloads.data.inputs import plain_inputs
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.environment import Environment
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry.server import Registry
from imagenet_workloads.telemetry.training import TimeAccount, TrainingRecorder
from imagenet_workloads.train.command_line import parse
from imagenet_workloads.train.framework import Outputs, Snapshot, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.resume import ResumePoint
from imagenet_workloads.train.trainer import Worker, train
from support.framework_doubles import Alone, Learner

STEPS = 3
STEP, LENGTH = 1.0, 100.0


class Killed(Exception):  # noqa: N818 - no error: the end of an attempt
    """The worker is gone."""


class Slow(Alone, Learner):
    """A framework, its group, learner and data, in which one place takes 100 seconds a call."""

    name = "Slow"
    batches_per_epoch, images, ordered_batch = STEPS, STEPS * 2, None

    def __init__(self, place: str = "", killed_after: int | None = None) -> None:
        super().__init__()
        self.now, self.calls = 1000.0, 0
        self._place, self._killed_after, self._steps = place, killed_after, 0

    def _pass(self, place: str) -> None:
        if place == self._place:
            self.now += LENGTH
            self.calls += 1

    def check(self) -> None:
        pass

    def join(self) -> "Slow":
        self._pass("join")
        return self

    def open_data(self, accumulation_steps: int, scratch: Path) -> Data:
        self._pass("open_data")
        return Data(self, self, plain_inputs((1, 4, 4)), (), 2, None)

    def wait_to_read(self, batch: Batch) -> None:
        pass

    def learner(self, data: Data, resume_point: ResumePoint, plan: UpdatePlan) -> "Slow":
        self._pass("learner")
        return self

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        self._pass("epoch")
        return self._batches()

    def _batches(self) -> Iterator[Batch]:
        while True:
            self._pass("read")
            yield Batch(None, np.zeros(2, np.float32), 2)

    def settle(self) -> None:
        self._pass("settle")

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        if self._steps == self._killed_after:
            raise Killed
        self._steps += 1
        self.now += STEP
        self._pass("train")
        return super().train(batch, updates, flags)

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        self._pass("batches")
        yield Batch(None, np.zeros(self.images, np.float32), self.images)

    def snapshot(self) -> Snapshot:
        self._pass("snapshot")
        return super().snapshot()

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        self._pass("export")
        return super().export(prefix, epoch)

    def wait_for_all(self) -> None:
        self._pass("wait_for_all")


def spent(
    slow: Slow, output: Path, monkeypatch: pytest.MonkeyPatch, attempt: int = 0
) -> dict[str, float]:
    """Train one epoch in an attempt; return the seconds of the phases that have any."""
    monkeypatch.setattr(time, "monotonic", lambda: slow.now)
    began, identity = slow.now, Identity("uid", "hash")
    options = parse(
        ["--output", str(output), "--num-epochs", "1", "--batch-size", "2", "--disp-batches", "1"],
        {},
    )
    registry = Registry(Environment())
    recorder = TrainingRecorder(registry, TimeAccount(clock=lambda: slow.now))
    worker = Worker(
        options,
        Environment(attempt=attempt),
        CheckpointStore(output, attempt, identity, keep=1),
        identity,
        recorder,
        Termination(grace=1),
        slow,
    )
    assert train(worker) == 0
    found = {phase.value: seconds for phase, seconds in recorder.time.seconds().items() if seconds}
    assert sum(found.values()) == slow.now - began
    return found


@pytest.mark.parametrize(
    ("place", "calls", "phase"),
    [
        ("open_data", 1, "starting"),
        ("join", 1, "joining"),
        ("learner", 1, "restoring"),
        ("epoch", 1, "data"),
        ("read", STEPS, "data"),
        ("settle", STEPS, "stepping"),
        ("train", STEPS, "stepping"),
        ("batches", 1, "evaluating"),
        ("snapshot", 1, "checkpointing"),
        ("export", 1, "exporting"),
        ("wait_for_all", 1, "ending"),
    ],
)
def test_a_delay_lands_in_its_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, calls: int, phase: str
) -> None:
    slow = Slow(place)
    expected = Counter({"stepping": STEPS * STEP}) + Counter({phase: calls * LENGTH})
    assert spent(slow, tmp_path, monkeypatch) == expected
    assert slow.calls == calls


@pytest.mark.parametrize(("place", "phase"), [("read", "data"), ("train", "stepping")])
def test_steps_that_a_killed_attempt_had_trained_are_redone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, phase: str
) -> None:
    with pytest.raises(Killed):
        spent(Slow(killed_after=2), tmp_path, monkeypatch)
    found = spent(Slow(place), tmp_path, monkeypatch, attempt=1)
    redone = Counter({"redone": 2 * (STEP + LENGTH)})
    assert found == redone + Counter({"stepping": STEP}) + Counter({phase: LENGTH})

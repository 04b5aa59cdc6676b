"""A worker that hangs is found in every phase, and one that works is left alone.

The whole training of one worker runs in a thread, with a framework that hangs at a chosen point.
The operator reads its metrics at times that the test makes up.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import generate_latest

from imagenet_operator.reconcile.policies import deadlines
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import End
from imagenet_spec.events import Event
from imagenet_spec.resource.status import TrainingStatus
from imagenet_workloads.checkpoint import CheckpointStore, Identity, Position
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.environment import Environment
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry.server import Registry
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.command_line import parse
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.receipts import State
from imagenet_workloads.train.resume import ResumePoint
from imagenet_workloads.train.trainer import Worker, train
from support import processes
from support.processes import wait_until
from support.samples import parse_sample
from support.sentences import assert_says

IMAGES = np.zeros((2, 1, 4, 4), np.float32)
LABELS = np.zeros(2, np.float32)
DEADLINE_SECONDS = 30
POD = "digits-r0-worker-0"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
PHASES = ("resuming", "evaluating", "saving", "exporting", "ending")
EVALUATIONS = 4
"""How often the training is at "evaluating"."""


class Gate:
    """One place at which the training waits until the test lets it on."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.arrived = threading.Semaphore(0)
        self.permits = threading.Semaphore(0)
        self.visits = Counter[str]()

    def at(self, place: str) -> None:
        """Wait if this is the place."""
        self.visits[place] += 1
        if place == self.place:
            self.arrived.release()
            self.permits.acquire()

    def let_through(self) -> None:
        """Let the training on, until it waits at the place again."""
        self.permits.release()
        self.wait_for_arrival()

    def wait_for_arrival(self) -> None:
        """Wait until the training waits at the place."""
        assert self.arrived.acquire(timeout=processes.DEADLINE_SECONDS)


class StandIn:
    """Framework, group, learner and data of a training that learns nothing."""

    name = "MXNet"
    rank, workers, collective, images_divisor = 0, 1, True, 1
    batches_per_epoch, images, ordered_batch = 3, 6, None
    compiled: bool | None = None

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def check(self) -> None:
        """All is there."""

    def join(self) -> "StandIn":
        return self

    def open_data(self, accumulation_steps: int, scratch: Path) -> Data:
        inputs = Inputs((1, 4, 4), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 0)
        return Data(self, self, inputs, ("a", "b"), 2, "key")

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        for _ in range(first_batch):
            self._gate.at("reading past")
            passed()
        self._gate.at("reading past")
        for _ in range(first_batch, self.batches_per_epoch):
            yield Batch(IMAGES, LABELS, 2)

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        for _ in range(3):
            self._gate.at("evaluating")
            yield Batch(IMAGES, LABELS, 2)
        self._gate.at("evaluating")

    def wait_to_read(self, batch: Batch) -> None:
        """It is there."""

    def learner(self, data: Data, resume_point: ResumePoint, plan: UpdatePlan) -> "StandIn":
        self._gate.at("resuming")
        return self

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        return flags, self.predict(batch)

    def predict(self, batch: Batch) -> Outputs:
        return Outputs.of(np.full((2, 2), 0.5, np.float32), LABELS)

    def gradients_ready(self) -> None:
        """There are no others."""

    def settle(self) -> None:
        """Nothing is computed."""

    def average_statistics(self) -> None:
        """There are none."""

    def snapshot(self) -> "StandIn":
        return self

    def save(self, folder: Path) -> None:
        self._write(folder / "weights", "saving")

    def state(self) -> State:
        return {}

    def load(self, folder: Path) -> None:
        """Nothing is learned."""

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        self._write(prefix.with_suffix(".params"), "exporting")
        return {"params": "model.params"}

    def note(self, event: Event) -> None:
        """Keep nothing."""

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def add(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def wait_for_all(self) -> None:
        self._gate.at("ending")

    def close(self) -> None:
        """There are no other workers."""

    def _write(self, path: Path, place: str) -> None:
        for _ in range(3):
            # Before the file is there: its appearance is work, which is seen within a second.
            self._gate.at(place)
            with path.open("ab") as file:
                file.write(b"weights")


class Running:
    """A training in a thread, and the operator's samples of it."""

    def __init__(self, registry: Registry, gate: Gate) -> None:
        self._registry, self._gate = registry, gate
        self._now = BEGUN
        self._sample: Sample | None = None

    def text(self) -> str:
        return generate_latest(self._registry.exported).decode()

    def after(self, seconds: float) -> End | None:
        """Take a sample so many seconds after the last; return the operator's verdict."""
        self._now += timedelta(seconds=seconds)
        self._sample = parse_sample({POD: self.text()}, self._sample, self._now)
        running = TrainingStatus(attempt=0, bound_time=BEGUN, running_time=BEGUN)
        return deadlines.no_progress(running, self._sample, DEADLINE_SECONDS, self._now)

    def is_in(self, place: str) -> bool:
        """Whether training is in the phase of a place; any place that is no phase will do."""
        # It is in the phase of "saving" already when a checkpoint begins, and evaluates then.
        if place == "saving" and self._gate.visits["evaluating"] < EVALUATIONS:
            return False
        return place not in PHASES or any(
            f'phase="{place}"' in line and line.endswith(" 1.0")
            for line in self.text().splitlines()
            if line.startswith("imagenet_train_phase{")
        )

    def works(self) -> None:
        """Let the training through once, and wait until its metrics say so."""
        before = self.text()
        self._gate.let_through()
        wait_until(lambda: self._units(self.text()) != self._units(before), "a unit of work")

    def _units(self, text: str) -> list[str]:
        return [line for line in text.splitlines() if "phase_work_total{" in line]


@contextmanager
def training(folder: Path, place: str) -> Iterator[Running]:
    """Run a training that waits at a place; it ends with the block."""
    environment = Environment(job="digits", role="worker", attempt=0)
    registry, gate = Registry(environment), Gate(place)
    identity = Identity("uid", "hash")
    worker = Worker(
        parse(["--num-epochs", "1", "--batch-size", "2", "--output", str(folder)], {}),
        environment,
        CheckpointStore(folder, 0, identity, 3),
        identity,
        TrainingRecorder(registry),
        Termination(grace=1),
        StandIn(gate),
    )
    ended = []
    thread = threading.Thread(target=lambda: ended.append(train(worker)))
    thread.start()
    try:
        gate.wait_for_arrival()
        running = Running(registry, gate)
        # A checkpoint is written beside training, which gets to its end meanwhile.
        wait_until(lambda: running.is_in(place), f"training is {place}")
        yield running
    finally:
        gate.place = ""
        gate.permits.release()
        thread.join()
    assert ended == [0]


@pytest.mark.parametrize("phase", PHASES)
def test_a_hang_is_found_in_every_phase(phase: str, tmp_path: Path) -> None:
    with training(tmp_path, phase) as running:
        assert running.after(0) is None
        assert running.after(DEADLINE_SECONDS - 1) is None
        found = running.after(2)
        assert found is not None
        assert found.reason == "ProgressDeadlineExceeded"
        assert_says(found.message, "30 s", phase)


@pytest.mark.parametrize("phase", ["evaluating", "saving", "exporting"])
def test_a_phase_that_works_is_left_alone(phase: str, tmp_path: Path) -> None:
    with training(tmp_path, phase) as running:
        assert running.after(0) is None
        for _ in range(2):
            running.works()
            assert running.after(DEADLINE_SECONDS - 1) is None


def test_batches_that_are_read_past_are_work(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 0, Identity("uid", "hash"), 3)
    with store.begin(Position(0, 2)) as folder:
        (folder / "training.json").write_text('{"batchesPerEpoch": 3}')
    with training(tmp_path, "reading past") as running:
        assert running.after(0) is None
        running.works()
        assert running.after(DEADLINE_SECONDS - 1) is None

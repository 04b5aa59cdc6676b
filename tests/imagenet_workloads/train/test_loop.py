"""What the loop does in which order, and what only a clock shows."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from imagenet_spec.events import EpochFinished, Event
from imagenet_workloads.checkpoint import Position
from imagenet_workloads.data.inputs import plain_inputs
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry.server import Registry
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.counts import Counts
from imagenet_workloads.train.framework import Outputs
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.loop import TrainingLoop, evaluate
from imagenet_workloads.train.predictions import Predictions
from imagenet_workloads.train.reporter import Reporter
from imagenet_workloads.train.schedule import Schedule
from support.framework_doubles import Alone, Learner, Zeros

SHAPE = (1, 4, 4)


class Order(Learner):
    """A learner and its training data, which note who is asked for what, and when."""

    batches_per_epoch = 2
    images = 4
    ordered_batch = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def settle(self) -> None:
        self.asked.append("settle")

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        while True:
            self.asked.append("read")
            yield Batch(None, None, 2)

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        self.asked.append("train")
        stop = self.asked.count("train") == self.batches_per_epoch
        return Flags(stop=stop), Outputs.of(np.eye(2, dtype=np.float32), np.zeros(2, np.float32))


class Checkpointer:
    """Writes no checkpoint."""

    is_busy, is_synced = False, True

    def is_due(self) -> bool:
        return False

    def within_epoch(self, position: Position) -> None:
        pass

    def after_step(self, position: Position, *, synced: bool) -> bool:
        return False

    def time(self, step: float, *, touched: bool) -> None:
        pass

    def after_epoch(self, epochs_done: int) -> None:
        pass

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


class SlowValidation:
    """Takes 100 seconds of the test's clock to find that there are no images."""

    images = 0

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        self.clock[0] += 100
        return iter(())


def loop(learner: Order, reporter: Reporter, accumulation_steps: int = 1) -> TrainingLoop:
    """One epoch of a learner that is its own training data."""
    return TrainingLoop(
        epochs=1,
        accumulation_steps=accumulation_steps,
        top_k=0,
        data=Data(learner, None, plain_inputs(SHAPE), (), 2, None),
        learner=learner,
        schedule=Schedule(0.1, 10, 1),
        group=Alone(),
        checkpointer=Checkpointer(),  # type: ignore[arg-type]
        reporter=reporter,
        termination=Termination(grace=1),
    )


def test_what_was_begun_is_computed_before_time_counts_as_waiting_for_data() -> None:
    registry = Registry(Environment())
    order = Order()
    fit = loop(order, Reporter(TrainingRecorder(registry), None, 1, 10))
    assert fit.run(Position(0, 0)).stopped
    assert order.asked == ["settle", "read", "train"] * 2


class Late(Order):
    """A learner on a device that has computed a step once someone waits for its outputs."""

    batches_per_epoch = 3

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        self.asked.append("train")
        found = Outputs.of(np.full((2, 2), np.nan, np.float32), np.zeros(2, np.float32))

        def wait() -> None:
            self.asked.append("wait")
            found.right[:], found.ahead[:], found.alike[:] = 1, 0, 0

        return Flags(), replace(found, wait=wait)


def test_a_device_has_the_next_step_to_compute_while_one_is_counted() -> None:
    registry, learner = Registry(Environment()), Late()
    written = list[Event]()
    recorder = TrainingRecorder(registry)
    fit = loop(learner, Reporter(recorder, None, 10, 10, listener=written.append))
    assert fit.run(Position(0, 0)).images == 6
    steps = [asked for asked in learner.asked if asked in ("train", "wait")]
    assert steps == ["train", "train", "wait", "train", "wait", "wait"]
    (finished,) = written
    assert isinstance(finished, EpochFinished)
    assert (finished.loss, finished.top1) == (0, 1)


class Busy(Order):
    """A learner that computes, and whose device waits for the program in some steps.

    The clock of the CPU advances by 1 with each call of the learner, and by 1/8 with each batch.
    """

    batches_per_epoch = 4

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._cpu = 0.0
        monkeypatch.setattr(time, "thread_time", lambda: self._cpu)

    def settle(self) -> None:
        self._cpu += 1

    def gradients_ready(self) -> float | None:
        self._cpu += 1
        return None

    def epoch(self, *arguments: Any, **options: Any) -> Iterator[Batch]:
        for batch in super().epoch(*arguments, **options):
            self._cpu += 1 / 8 + 1
            yield replace(batch, cpu_seconds=1.0)

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        self._cpu += 1
        flags, outputs = super().train(batch, updates, flags)

        def wait() -> None:
            self._cpu += 1

        number = self.asked.count("train")
        return flags, replace(outputs, wait=wait, starved=number == 3 if number > 1 else None)


def test_the_cpu_of_a_step_is_that_outside_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, learner = Registry(Environment()), Busy(monkeypatch)
    recorder = TrainingRecorder(registry)
    loop(learner, Reporter(recorder, None, 1, 10)).run(Position(0, 0))
    assert recorder.median_loop_cpu() == 1 / 8


def test_steps_are_counted_in_which_a_device_waits_for_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = TrainingRecorder(Registry(Environment()))
    loop(Busy(monkeypatch), Reporter(recorder, None, 1, 10)).run(Position(0, 0))
    measured = recorder.measured()
    steps = ("imagenet_train_launched_steps_total", "imagenet_train_starved_steps_total")
    assert [measured[name] for name in steps] == [3, 1]


class Exchanging(Order):
    """A learner that takes a second for each step, and one more to exchange gradients."""

    batches_per_epoch = 4

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now, self._ready = 100.0, 0.0
        self._updated = False
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        self.now += 1
        self._updated, self._ready = updates, self.now
        self.now += updates
        return super().train(batch, updates, flags)

    def gradients_ready(self) -> float | None:
        return self._ready if self._updated else None


@pytest.mark.parametrize(
    ("accumulation_steps", "exchanges", "seconds"), [(1, 4, 4.0), (2, 2, 4.0), (8, None, None)]
)
def test_the_time_before_an_exchange_is_that_of_its_steps_without_the_exchange(
    monkeypatch: pytest.MonkeyPatch,
    accumulation_steps: int,
    exchanges: int | None,
    seconds: float | None,
) -> None:
    registry, learner = Registry(Environment()), Exchanging(monkeypatch)
    reporter = Reporter(TrainingRecorder(registry), None, 1, 10)
    fit = loop(learner, reporter, accumulation_steps)
    fit.run(Position(0, 0))
    labels = {"imagenet_job": "local", "namespace": "default", "role": "", "attempt": ""}
    names = ("imagenet_train_exchanges_total", "imagenet_train_before_exchange_seconds_total")
    found = [registry.exported.get_sample_value(name, labels) for name in names]
    assert found == [exchanges, seconds]


def test_the_speed_of_training_does_not_count_evaluation() -> None:
    clock = [0.0]
    registry = Registry(Environment())
    reporter = Reporter(TrainingRecorder(registry), None, 1, 10, lambda: clock[0])
    fit = TrainingLoop(
        epochs=1,
        accumulation_steps=1,
        top_k=0,
        data=Data(Order(), SlowValidation(clock), plain_inputs(SHAPE), (), 2, None),
        learner=Learner(),
        schedule=Schedule(0.1, 10, 1),
        group=Alone(),
        checkpointer=None,  # type: ignore[arg-type]
        reporter=reporter,
        termination=Termination(grace=1),
    )
    assert fit.validate(0) == Counts()
    clock[0] += 1
    reporter.step(Position(1, 1), 8, 1.0, 0.0, lambda: 0.1, Counts)
    labels = {"imagenet_job": "local", "namespace": "default", "role": "", "attempt": ""}
    speed = registry.exported.get_sample_value("imagenet_train_images_per_second", labels)
    assert speed == 8


@pytest.mark.parametrize("collective", [True, False])
def test_every_image_is_counted_and_padding_is_not(collective: bool) -> None:
    found = evaluate(Learner(), Zeros(), Alone(collective=collective), 0)
    assert found is not None
    assert (found.images, found.top1) == (10, 10)


class Endless(Order):
    """A learner whose training nothing stops."""

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        return Flags(), super().train(batch, updates, flags)[1]


def test_only_the_final_validation_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[int] = []
    monkeypatch.setattr(
        Predictions, "add", lambda self, outputs: recorded.append(len(outputs.labels))
    )
    fit = loop(Endless(), Reporter(TrainingRecorder(Registry(Environment())), None, 1, 10))
    fit.checkpointer.look = lambda: None  # type: ignore[method-assign]
    fit.data = replace(fit.data, validation=Zeros())
    fit.epochs = 3
    outcome = fit.run(Position(0, 0))
    assert outcome.validation is not None
    assert outcome.validation.images == 10
    assert recorded == [4, 4, 2]
    assert fit.predictions is not None


def test_ranks_that_are_apart_leave_it_to_rank_0() -> None:
    assert evaluate(Learner(), Zeros(), Alone(rank=1, collective=False), 0) is None


def test_missing_images_are_noticed() -> None:
    with pytest.raises(WorkloadError, match="saw 10 images of 11"):
        evaluate(Learner(), Zeros(images=11), Alone(), 0)

"""What of the loop only a clock shows."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import mxnet as mx
import numpy as np

from imagenet_workloads.checkpoint.store import Position
from imagenet_workloads.commands.train import parse
from imagenet_workloads.environment import Environment
from imagenet_workloads.frameworks.mxnet.data import choose
from imagenet_workloads.frameworks.mxnet.framework import MXNetLearner
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies.single import Single
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry.registry import Registry
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.counts import Counts
from imagenet_workloads.train.data import Batch, Data, plain_inputs
from imagenet_workloads.train.framework import Outputs
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.loop import TrainingLoop
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.reporter import Reporter
from imagenet_workloads.train.schedule import Schedule

SHAPE = (1, 4, 4)


@dataclasses.dataclass
class Order:
    """A learner and its training data, which note who is asked for what, and when."""

    asked: list[str]
    batches_per_epoch: int = 2
    images: int = 4

    def settle(self) -> None:
        self.asked.append("settle")

    def epoch(self, number: int, first_batch: int) -> Iterator[Batch]:
        while True:
            self.asked.append("read")
            yield Batch(None, None, 2)

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        self.asked.append("train")
        stop = self.asked.count("train") == self.batches_per_epoch
        return Flags(stop=stop), Outputs(np.eye(2, dtype=np.float32), np.zeros(2, np.float32))


class Checkpointer:
    """Writes no checkpoint."""

    def is_due(self) -> bool:
        return False

    def within_epoch(self, position: Position) -> None:
        pass


class SlowValidation:
    """Takes 100 seconds of the test's clock to find that there are no images."""

    images = 0

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        self.clock[0] += 100
        return iter(())


def test_what_was_begun_is_computed_before_time_counts_as_waiting_for_data() -> None:
    registry = Registry(Environment())
    order = Order([])
    fit = TrainingLoop(
        epochs=1,
        accumulation_steps=1,
        top_k=0,
        data=Data(order, None, plain_inputs(SHAPE), (), 2, None),
        learner=order,  # type: ignore[arg-type]
        schedule=Schedule(0.1, 10, 1),
        group=Single("local", None),
        checkpointer=Checkpointer(),  # type: ignore[arg-type]
        reporter=Reporter(TrainingRecorder(registry), None, 1, 10),
        termination=Termination(grace=1),
    )
    assert fit.run(Position(0, 0)).stopped
    assert order.asked == ["settle", "read", "train"] * 2


def test_the_speed_of_training_does_not_count_evaluation(tmp_path: Path) -> None:
    clock = [0.0]
    options = parse(["--benchmark", "1", "--image-shape", "1,4,4", "--batch-size", "2"])
    data = choose(options, 0, 1, 1, tmp_path)
    registry = Registry(Environment())
    reporter = Reporter(TrainingRecorder(registry), None, 1, 10, lambda: clock[0])
    strategy = Single("local", None)
    fit = TrainingLoop(
        epochs=1,
        accumulation_steps=1,
        top_k=0,
        data=dataclasses.replace(data, validation=SlowValidation(clock)),
        learner=MXNetLearner(
            Replicas(build(NetworkRequest("mlp", None, 3, SHAPE)), [mx.cpu()], 2, SHAPE), strategy
        ),
        schedule=Schedule(0.1, 10, 1),
        group=strategy,
        checkpointer=None,  # type: ignore[arg-type]
        reporter=reporter,
        termination=Termination(grace=1),
    )
    assert fit.validate(0) == Counts()
    clock[0] += 1
    reporter.step(Position(1, 1), 8, 1.0, 0.0, 0.1, Counts(images=8))
    labels = {"imagenet_job": "local", "namespace": "default", "role": "", "attempt": ""}
    speed = registry.exported.get_sample_value("imagenet_train_images_per_second", labels)
    assert speed == 8

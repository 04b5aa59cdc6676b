"""When a worker of TensorFlow has computed its gradients, before it waits for the others."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from imagenet_workloads.frameworks.tensorflow.strategies.mirrored import Distributed
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from support.exchange_times import ENDLESS_TRAINING, assert_half_is_slower
from support.horovod_cluster import HorovodCluster
from support.learners import CLASSES, batch, learner, on_devices
from support.listed_workers import ListedWorkers

SHAPE = (3, 20, 20)
MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)


@pytest.mark.parametrize("devices", [1, 2])
def test_gradients_are_ready_before_the_exchange(
    devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanged: list[float] = []

    def total(self: Distributed, tensors: Sequence[Any]) -> list[Any]:
        copies = [tf.identity(tensor) for tensor in tensors]
        with tf.control_dependencies(copies):
            noted = tf.numpy_function(note, [], tf.float64)
        with tf.control_dependencies([noted]):
            return [tf.identity(copy) for copy in copies]

    def note() -> float:
        exchanged.append(time.monotonic())
        return exchanged[-1]

    monkeypatch.setattr(Distributed, "total", total)
    monkeypatch.setattr(on_devices(devices), "workers", 2)
    made = learner(MLP, devices)
    for step in range(3):
        began = time.monotonic()
        made.train(batch(step, 8, SHAPE), True, Flags())
        ready = made.gradients_ready()
        assert ready is not None
        assert began < ready < max(exchanged)


def test_a_step_without_an_update_has_no_such_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_devices(1), "workers", 2)
    made = learner(MLP, accumulation_steps=2)
    made.train(batch(0, 4, SHAPE), True, Flags())
    assert made.gradients_ready() is not None
    made.train(batch(1, 4, SHAPE), False, Flags())
    assert made.gradients_ready() is None


def test_a_worker_without_others_exchanges_nothing() -> None:
    made = learner(MLP)
    made.train(batch(0, 8, SHAPE), True, Flags())
    assert made.gradients_ready() is None


def test_a_throttled_worker_of_multi_worker_mirrored_takes_longer(tmp_path: Path) -> None:
    options = [*ENDLESS_TRAINING, "--output", str(tmp_path / "out")]
    with ListedWorkers(tmp_path / "members", options) as running:
        running.wait_for_line("worker-1", "INFO rank ")
        hosts = [running.host(number) for number in (0, 1)]
        assert_half_is_slower(hosts, running.process("worker-1"))


def test_a_throttled_worker_of_horovod_takes_longer(tmp_path: Path) -> None:
    options = ["--framework", "TensorFlow", "--distribution-strategy", "horovod"]
    options += [*ENDLESS_TRAINING, "--output", str(tmp_path / "out")]
    with HorovodCluster(tmp_path / "members", options) as running:
        running.wait_for_line("pod-1", "INFO rank ")
        hosts = [running.host("pod-0"), running.host("pod-1")]
        assert_half_is_slower(hosts, running.trainer_of("pod-1"))

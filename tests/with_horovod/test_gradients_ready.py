"""When a slot of Horovod has computed MXNet's gradients, before it waits for the others."""

import threading
import time
from pathlib import Path
from typing import Any

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks.mxnet import optimizers
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags, horovod
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.schedule import Schedule
from support.exchange_times import ENDLESS_TRAINING, assert_half_is_slower
from support.horovod_cluster import HorovodCluster

SHAPE = (1, 28, 28)
OTHERS = threading.Event()
"""Set when the others have their gradients."""


class Exchange(mx.operator.CustomOp):  # type: ignore[misc]
    """Gives its input, when the others have theirs."""

    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        assert OTHERS.wait(60)
        self.assign(out_data[0], req[0], in_data[0])


@mx.operator.register("exchange_with_late_others")
class ExchangeProperties(mx.operator.CustomOpProp):  # type: ignore[misc]
    """Of one input and one output."""

    def create_operator(self, context: Any, shapes: Any, types: Any) -> Exchange:
        return Exchange()


def allreduce(array: mx.nd.NDArray, name: str, **options: Any) -> mx.nd.NDArray:
    """Sum over this slot and others whose gradients are late, while their flags are not."""
    if name.startswith(("flags", "weight", "statistic")):
        return array
    return mx.nd.Custom(array, op_type="exchange_with_late_others", out=array)


@pytest.mark.parametrize("devices", [1, 2])
def test_gradients_are_ready_before_the_wait_for_others(
    devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("init", lambda: None), ("rank", lambda: 0), ("size", lambda: 2)):
        monkeypatch.setattr(hvd, name, value)
    monkeypatch.setattr(hvd, "allreduce_", allreduce)
    contexts = [mx.cpu(number) for number in range(devices)]
    made = Replicas(build(NetworkRequest("lenet", None, 10, SHAPE)), contexts, 8, SHAPE)
    made.initialize(mx.init.Xavier())
    strategy = horovod.join(parse(["--kv-store", "horovod"]).cluster)
    rate = ByUpdate(Schedule(0.05, 1, 10))
    strategy.start(made, optimizers.create(parse([]).optimizer, made, rate, 8, 0))
    for step in range(3):
        OTHERS.clear()
        random = np.random.default_rng(step)
        images = mx.nd.array(random.normal(size=(8, *SHAPE)))
        began = time.monotonic()
        made.forward_backward(images, mx.nd.array(random.integers(0, 10, 8)))
        strategy.update(Flags())
        others = time.monotonic()
        OTHERS.set()
        assert strategy.gradients_ready is not None
        assert began < strategy.gradients_ready < others
        mx.nd.waitall()


def test_a_throttled_slot_takes_longer_than_the_other(tmp_path: Path) -> None:
    options = [*ENDLESS_TRAINING, "--output", str(tmp_path / "out")]
    with HorovodCluster(tmp_path / "members", options) as running:
        running.wait_for_line("pod-1", "INFO rank ")
        hosts = [running.host("pod-0"), running.host("pod-1")]
        assert_half_is_slower(hosts, running.trainer_of("pod-1"))

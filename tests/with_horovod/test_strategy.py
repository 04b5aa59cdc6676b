"""The strategy itself, as the only slot: what a slot does with several devices."""

from collections.abc import Iterator

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks.mxnet import optimizers
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags, Strategy, horovod
from imagenet_workloads.frameworks.mxnet.strategies.horovod import Horovod
from imagenet_workloads.frameworks.mxnet.strategies.single import Single
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.schedule import Schedule

SHAPE = (1, 28, 28)


@pytest.fixture(scope="module")
def alone() -> Iterator[Horovod]:
    """Horovod can be begun once in a process."""
    strategy = horovod.join(parse(["--kv-store", "horovod"]).cluster)
    yield strategy
    strategy.wait_for_all()
    strategy.close()


def replicas(devices: int) -> Replicas:
    contexts = [mx.cpu(number) for number in range(devices)]
    made = Replicas(build(NetworkRequest("resnet", 8, 10, SHAPE)), contexts, 8, SHAPE)
    mx.random.seed(1)
    made.initialize(mx.init.Xavier())
    return made


def three_steps(strategy: Strategy, made: Replicas) -> list[Flags]:
    options = parse([]).optimizer
    rate = ByUpdate(Schedule(0.05, 1, 10))
    strategy.start(made, optimizers.create(options, made, rate, 8, 0))
    flags = []
    for step in range(3):
        random = np.random.default_rng(step)
        images = mx.nd.array(random.normal(size=(8, *SHAPE)))
        made.forward_backward(images, mx.nd.array(random.integers(0, 10, 8)))
        flags.append(strategy.update(Flags(save=step == 1, stop=step == 2)))
    mx.nd.waitall()
    return flags


@pytest.mark.parametrize("devices", [1, 2])
def test_alone_it_does_what_a_single_process_does(alone: Horovod, devices: int) -> None:
    ours, theirs = replicas(devices), replicas(devices)
    flags = three_steps(alone, ours)
    assert flags == [Flags(), Flags(save=True), Flags(stop=True)]
    three_steps(Single("device", None), theirs)
    for name in ours.weight_names:
        expected = theirs.weights(name)[0].asnumpy()
        for weight in ours.weights(name):
            assert np.array_equal(weight.asnumpy(), expected), name


def test_the_first_devices_values_reach_the_others(alone: Horovod) -> None:
    made = replicas(2)
    name = made.statistic_names[0]
    made.statistics(name)[1][:] = 7
    made.weights(made.weight_names[0])[1][:] = 7
    rate = ByUpdate(Schedule(0.05, 1, 10))
    alone.start(made, optimizers.create(parse([]).optimizer, made, rate, 8, 0))
    for first, second in (made.statistics(name), made.weights(made.weight_names[0])):
        assert np.array_equal(first.asnumpy(), second.asnumpy())


def test_no_name_is_read_after_it_is_freed(alone: Horovod, monkeypatch: pytest.MonkeyPatch) -> None:
    """Horovod's broadcast does so for MXNet, which ends the process now and then."""
    monkeypatch.delattr(hvd, "broadcast_")
    made = replicas(1)
    for time in range(20):
        rate = ByUpdate(Schedule(0.05, 1, 10))
        alone.start(made, optimizers.create(parse([]).optimizer, made, rate, 8, 0))
        assert alone.broadcast_from_rank0(f"time {time}", [time]) == [time]
    mx.nd.waitall()


def test_statistics_of_all_devices_are_gathered(alone: Horovod) -> None:
    own = np.array([[1.0, 5.0], [3.0, 6.0]], np.float32)
    assert np.array_equal(alone.gather(own), own)


def test_numbers_stay_whole(alone: Horovod) -> None:
    numbers = [0, 1, 2**53 + 1, 2**60 - 1]
    assert alone.broadcast_from_rank0("start", numbers) == alone.add(numbers) == numbers
    assert alone.add([5]) == [5]

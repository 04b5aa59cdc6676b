"""The strategy itself, as the only slot: what a slot does with several devices."""

from collections.abc import Iterator

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.train import optimizer
from imagenet_workloads.train.networks import build
from imagenet_workloads.train.networks.request import Request
from imagenet_workloads.train.options import parse
from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.schedule import ByUpdate, Schedule
from imagenet_workloads.train.strategies import horovod
from imagenet_workloads.train.strategies.horovod import Horovod
from imagenet_workloads.train.strategies.interface import Strategy, Votes
from imagenet_workloads.train.strategies.single import Single

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
    made = Replicas(build(Request("resnet", 8, 10, SHAPE)), contexts, 8, SHAPE)
    mx.random.seed(1)
    made.initialize(mx.init.Xavier())
    return made


def three_steps(strategy: Strategy, made: Replicas) -> list[Votes]:
    options = parse([]).optimizer
    rate = ByUpdate(Schedule(0.05, 1, 10))
    strategy.start(made, optimizer.create(options, made, rate, 8, 0))
    votes = []
    for step in range(3):
        random = np.random.default_rng(step)
        images = mx.nd.array(random.normal(size=(8, *SHAPE)))
        made.forward_backward(images, mx.nd.array(random.integers(0, 10, 8)))
        votes.append(strategy.update(Votes(save=step == 1, stop=step == 2)))
    mx.nd.waitall()
    return votes


@pytest.mark.parametrize("devices", [1, 2])
def test_alone_it_does_what_a_single_process_does(alone: Horovod, devices: int) -> None:
    ours, theirs = replicas(devices), replicas(devices)
    votes = three_steps(alone, ours)
    assert votes == [Votes(), Votes(save=True), Votes(stop=True)]
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
    alone.start(made, optimizer.create(parse([]).optimizer, made, rate, 8, 0))
    for first, second in (made.statistics(name), made.weights(made.weight_names[0])):
        assert np.array_equal(first.asnumpy(), second.asnumpy())


def test_no_name_is_read_after_it_is_freed(alone: Horovod, monkeypatch: pytest.MonkeyPatch) -> None:
    """Horovod's broadcast does so for MXNet, which ends the process now and then."""
    monkeypatch.delattr(hvd, "broadcast_")
    made = replicas(1)
    for time in range(20):
        rate = ByUpdate(Schedule(0.05, 1, 10))
        alone.start(made, optimizer.create(parse([]).optimizer, made, rate, 8, 0))
        assert alone.agree(f"time {time}", [time]) == [time]
    mx.nd.waitall()


def test_statistics_are_averaged_over_devices(alone: Horovod) -> None:
    parts = [mx.nd.array([1.0, 5.0]), mx.nd.array([3.0, 6.0])]
    alone.average({"mean": parts})
    assert [part.asnumpy().tolist() for part in parts] == [[2.0, 5.5], [2.0, 5.5]]


def test_numbers_stay_whole(alone: Horovod) -> None:
    numbers = [0, 1, 2**53 + 1, 2**60 - 1]
    assert alone.agree("start", numbers) == alone.add(numbers) == numbers
    assert alone.add([5]) == [5]

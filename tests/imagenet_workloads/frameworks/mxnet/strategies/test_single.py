"""One process, one device or several."""

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks.mxnet import optimizers
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.replicas import Parameters, Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags, join
from imagenet_workloads.train.moving_statistics import MovingStatistics
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.schedule import Schedule

SHAPE = (3, 8, 8)


def replicas(devices: int, network: str) -> Replicas:
    contexts = [mx.cpu(number) for number in range(devices)]
    made = Replicas(build(NetworkRequest(network, 8, 4, SHAPE)), contexts, 8, SHAPE)
    made.initialize(mx.init.Xavier())
    return made


@pytest.mark.parametrize("kv_store", ["local", "device"])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_devices_take_the_step_of_one(kv_store: str, devices: int) -> None:
    random = np.random.default_rng(0)
    data = mx.nd.array(random.normal(size=(8, *SHAPE)))
    label = mx.nd.array(random.integers(0, 4, 8))
    options = parse(["--kv-store", kv_store])
    results: list[Parameters] = []
    start = replicas(1, "mlp").parameters()
    for made in (replicas(1, "mlp"), replicas(devices, "mlp")):
        made.load(start)
        strategy = join(options.cluster)
        rate = ByUpdate(Schedule(0.1, 1, 1))
        strategy.start(made, optimizers.create(options.optimizer, made, rate, 8, 0))
        for _ in range(3):
            made.forward_backward(data, label)
            assert strategy.update(Flags(save=True)) == Flags(save=True)
        results.append(made.parameters())
        for name in made.weight_names:
            copies = [part.asnumpy() for part in made.weights(name)]
            assert all(np.array_equal(copies[0], copy) for copy in copies)
    for name, expected in results[0].arguments.items():
        found = results[1].arguments[name].asnumpy()
        np.testing.assert_allclose(found, expected.asnumpy(), atol=1e-6)


def statistics(made: Replicas) -> MovingStatistics:
    strategy = join(parse([]).cluster)
    return MovingStatistics(made.read_statistics, made.write_statistics, strategy.gather, strategy)


def test_statistics_are_the_mean_of_the_devices_until_the_next_step() -> None:
    made = replicas(2, "resnet")
    first, second = made.statistics("bn1_moving_mean")
    first[:], second[:] = 1.0, 4.0
    averaged = statistics(made)
    averaged.average()
    for part in made.statistics("bn1_moving_mean"):
        assert np.array_equal(part.asnumpy(), np.full(part.shape, 2.5, np.float32))
    averaged.restore_own()
    assert np.array_equal(first.asnumpy(), np.full(first.shape, 1.0, np.float32))
    assert np.array_equal(second.asnumpy(), np.full(second.shape, 4.0, np.float32))


def test_statistics_hold_the_step_that_was_just_started() -> None:
    made = replicas(2, "resnet")
    data = mx.nd.random.normal(5.0, 1.0, (8, *SHAPE))
    expected = 0.1 * data.asnumpy().mean(axis=(0, 2, 3))
    made.forward_backward(data, mx.nd.zeros(8))
    statistics(made).average()
    found = made.statistics("bn_data_moving_mean")[0].asnumpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_alone_numbers_are_their_own_sum() -> None:
    strategy = join(parse([]).cluster)
    assert (strategy.rank, strategy.workers, strategy.collective) == (0, 1, True)
    assert strategy.add([1, 2]) == strategy.broadcast_from_rank0("x", [1, 2]) == [1, 2]
    strategy.wait_for_all()
    strategy.close()

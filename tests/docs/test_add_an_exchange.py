"""The exchange that docs/add-a-strategy.md adds trains: its code is found by its name, and runs."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from docs.test_add_a_strategy import block, line
from imagenet_spec.frameworks.descriptor import StrategySupport
from imagenet_spec.frameworks.mxnet import MXNET
from imagenet_spec.program.train import Options
from imagenet_spec.strategies import STRATEGIES
from imagenet_workloads import rendezvous
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.frameworks.mxnet import description, optimizers, strategies
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.replicas import Parameters, Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags, Strategy, join, kvstore, single
from imagenet_workloads.rendezvous import Rendezvous, none, waiting
from imagenet_workloads.train import moving_statistics, worker
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.schedule import Schedule
from support import loopback

SHAPE = (3, 8, 8)


class RingWorker:
    """One of two in the ring of the imaginary library; each runs in a thread."""

    size = 2

    def __init__(self, rank: int, table: list[Any], meeting: threading.Barrier) -> None:
        self.rank, self._table, self._meeting = rank, table, meeting

    def sum(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Add up over both."""
        self._table[self.rank] = numbers
        self._meeting.wait()
        total: NDArray[Any] = self._table[0] + self._table[1]
        # No worker sends the next numbers before both have these.
        self._meeting.wait()
        return total

    def leave(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the page's modules where it says, and its line into the table."""
    table, meeting = [None, None], threading.Barrier(2, timeout=60)
    members = iter([RingWorker(0, table, meeting), RingWorker(1, table, meeting)])
    rings = ModuleType("rings")
    vars(rings).update(join=lambda: next(members), Ring=RingWorker)
    here = {"rings": rings, "mx": mx, "np": np, "InputError": InputError}
    for module in (single, kvstore, moving_statistics, waiting, rendezvous, none):
        here |= {name: found for name, found in vars(module).items() if name[0] != "_"}
    for package in (strategies, rendezvous):
        path = f"{package.__name__.partition('.')[2].replace('.', '/')}/ring.py"
        made = ModuleType(f"{package.__name__}.ring")
        vars(made).update(here)
        exec(block(path), vars(made))
        monkeypatch.setitem(sys.modules, made.__name__, made)
    monkeypatch.setitem(STRATEGIES, "ring", line("strategies.py")["ring"])
    monkeypatch.setitem(MXNET.strategies, "ring", StrategySupport(options={"kv_store": "ring"}))
    for name, module in line("frameworks/mxnet/description.py").items():
        monkeypatch.setitem(description.STRATEGIES, name, module)


def options(kv_store: str) -> Options:
    """The command line, whose choices were made before the page's."""
    parsed = parse([])
    return parsed._replace(cluster=parsed.cluster.replace(kv_store=kv_store))


def find(options: Options, variables: dict[str, str]) -> Rendezvous:
    return worker.find_rendezvous(options, description.DESCRIPTION, variables)


def replicas(images: int) -> Replicas:
    made = Replicas(build(NetworkRequest("mlp", 8, 4, SHAPE)), [mx.cpu()], images, SHAPE)
    mx.random.seed(0)
    made.initialize(mx.init.Xavier())
    return made


def train(
    strategy: Strategy, made: Replicas, data: NDArray[Any], label: NDArray[Any]
) -> Parameters:
    """Take three steps with some images."""
    rate = ByUpdate(Schedule(0.1, 1, 1))
    strategy.start(made, optimizers.create(parse([]).optimizer, made, rate, 8, 0))
    for _ in range(3):
        made.forward_backward(mx.nd.array(data), mx.nd.array(label))
        assert strategy.update(Flags(save=strategy.rank == 0)) == Flags(save=True)
    assert strategy.broadcast_from_rank0("seed", [7 + strategy.rank]) == [7]
    strategy.wait_for_all()
    strategy.close()
    return made.parameters()


def test_two_workers_learn_what_one_does() -> None:
    random = np.random.default_rng(0)
    data, label = random.normal(size=(8, *SHAPE)), random.integers(0, 4, 8)
    alone, *both = replicas(8), replicas(4), replicas(4)
    # Only the first one's start counts.
    both[0].load(alone.parameters())
    members = [join(options("ring").cluster) for _ in both]

    expected = train(join(options("local").cluster), alone, data, label)
    with ThreadPoolExecutor(2) as threads:
        found = list(
            threads.map(train, members, both, (data[:4], data[4:]), (label[:4], label[4:]))
        )

    for name, weights in expected.arguments.items():
        for parameters in found:
            np.testing.assert_allclose(
                parameters.arguments[name].asnumpy(), weights.asnumpy(), atol=1e-6
            )


def test_a_worker_waits_for_the_first() -> None:
    host = f"{loopback.network()}.1"
    first = find(options("ring"), {"RING_FIRST": host, "RING_INDEX": "0"})
    assert first.wait(0.1)() is False
    second = find(options("ring"), {"RING_FIRST": host, "RING_INDEX": "1"})
    with pytest.raises(WorkloadError, match=rf"the first of the ring {host}:9092"):
        second.wait(0.1)
    assert second.explain(ConnectionError()) is not None
    assert second.explain(ValueError()) is None


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(InputError, match="--kv-store ring: RING_FIRST must name"):
        find(options("ring"), {})
    with pytest.raises(InputError, match="local: RING_INDEX is 1, and that needs ring"):
        find(options("local"), {"RING_INDEX": "1"})

"""What the servers of dist_sync know when a worker pushes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mxnet as mx
import pytest

from imagenet_workloads.checkpoint import Identity
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.framework import check_order_of_sums, create
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags, kvstore
from imagenet_workloads.frameworks.mxnet.strategies.synchronous import Synchronous
from imagenet_workloads.rendezvous.none import NoRendezvous
from imagenet_workloads.train.group import Group
from imagenet_workloads.train.networks import NetworkRequest
from support.sentences import says

SHAPE = (1, 4, 4)


class Servers:
    """MXNet's store on rank 1 of two workers, whose servers add nothing of the other's.

    Rank 0 sends the compression to the servers before the barrier. They misread every
    gradient that is pushed before.
    """

    rank, num_workers = 1, 2

    def __init__(self) -> None:
        self.values: dict[str, mx.nd.NDArray] = {}
        self.misread: list[str] = []
        self._chosen: Any = None
        self._known: Any = None

    def init(self, keys: list[str], values: list[mx.nd.NDArray]) -> None:
        self.values |= {key: value.copy() for key, value in zip(keys, values, strict=True)}

    def push(self, key: str, value: Any, priority: int = 0) -> None:
        assert key in self.values, f"no key {key} is reserved"
        if self._chosen != self._known:
            self.misread.append(key)
        self.values[key] = mx.nd.add_n(*value) if isinstance(value, list) else value.copy()

    def pull(self, key: str | list[str], out: Any, priority: int = 0) -> None:
        pairs = zip(key, out, strict=True) if isinstance(key, list) else [(key, out)]
        for name, arrays in pairs:
            for array in arrays if isinstance(arrays, list) else [arrays]:
                self.values[name].copyto(array)

    def set_gradient_compression(self, settings: Any) -> None:
        self._chosen = settings

    def _barrier(self) -> None:
        self._known = self._chosen


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    made = Servers()
    monkeypatch.setattr(mx.kv, "create", lambda kv_store: made)
    return made


@pytest.fixture(params=[None, {"type": "2bit", "threshold": 0.5}], ids=["plain", "compressed"])
def started(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Synchronous]:
    """A worker that has started, with gradients as they are or compressed."""
    strategy = Synchronous("dist_sync", request.param)
    replicas = Replicas(build(NetworkRequest("mlp", None, 3, SHAPE)), [mx.cpu()], 2, SHAPE)
    strategy.start(replicas, mx.optimizer.SGD())
    yield strategy
    strategy.close()


def test_a_deterministic_sum_has_at_most_two_workers() -> None:
    check_order_of_sums(2)
    with pytest.raises(InputError, match=says("3 workers", "order of arrival", "use 2")):
        check_order_of_sums(3)


@pytest.mark.parametrize("kv_store", ["dist_sync", "dist_device_sync"])
def test_training_refuses_three_workers_with_deterministic_alone(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kv_store: str
) -> None:
    monkeypatch.setattr(kvstore, "open_stores", [])

    def join(workers: int, *more: str) -> Group:
        monkeypatch.setattr(Servers, "num_workers", workers)
        options = parse(["--kv-store", kv_store, *more])
        return create(options, NoRendezvous(), tmp_path, Identity("", "")).join()

    assert join(3).workers == 3
    assert join(2, "--deterministic", "1").workers == 2
    with pytest.raises(InputError, match=says("3 workers", "order of arrival", "use 2")):
        join(3, "--deterministic", "1")


def test_no_gradient_comes_before_the_servers_know_that_it_is_compressed(
    started: Synchronous, servers: Servers
) -> None:
    assert started.update(Flags(save=True)) == Flags(save=True)
    assert "gradient:0" in servers.values
    assert servers.misread == []


@pytest.mark.parametrize("started", [None], indirect=True)
def test_numbers_are_added_beside_the_gradients(started: Synchronous) -> None:
    assert started.add([5, 2**40]) == [5, 2**40]

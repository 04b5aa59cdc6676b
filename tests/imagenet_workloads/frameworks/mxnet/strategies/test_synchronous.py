"""What dist_sync tells its servers, in which order; by a store that only remembers."""

from typing import Any

import mxnet as mx
import pytest

from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import synchronous
from imagenet_workloads.frameworks.mxnet.strategies.kvstore import Compression
from imagenet_workloads.frameworks.mxnet.strategies.synchronous import Synchronous
from imagenet_workloads.train.networks import NetworkRequest

SHAPE = (1, 4, 4)


class Remembering:
    """Stands for `ServerStore` and for MXNet's store in it."""

    rank, workers = 1, 2

    def __init__(self, kv_store: str) -> None:
        self.store = self
        self.told: list[str] = []

    def broadcast(self, arrays: Any) -> None:
        self.told.append("spread")

    def broadcast_statistics(self, replicas: Replicas) -> None:
        self.told.append("spread statistics")

    def reserve(self, key: str, size: int) -> None:
        self.told.append("reserve")

    def set_gradient_compression(self, settings: Any) -> None:
        self.told.append("compress")

    def wait_for_all(self) -> None:
        self.told.append("wait")


@pytest.mark.parametrize(
    ("compression", "last"),
    [(Compression("2bit", 0.5), ["compress", "wait"]), (None, ["reserve", "reserve"])],
)
def test_nobody_pushes_before_the_servers_know_that_it_is_compressed(
    compression: Compression | None, last: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synchronous, "ServerStore", Remembering)
    strategy = Synchronous("dist_sync", compression)
    replicas = Replicas(build(NetworkRequest("mlp", None, 3, SHAPE)), [mx.cpu()], 2, SHAPE)

    strategy.start(replicas, mx.optimizer.SGD())

    server: Any = strategy._server
    assert server.told[-2:] == last

"""Evaluation counts what came by, and notices what did not."""

from collections.abc import Iterator

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.frameworks.mxnet.framework import MXNetLearner
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies.single import Single
from imagenet_workloads.train.counts import Counts, count
from imagenet_workloads.train.framework import Outputs
from imagenet_workloads.train.loop import evaluate
from imagenet_workloads.train.networks import NetworkRequest

SHAPE = (1, 4, 4)


class Drawn:
    """10 random images in batches of 4, of which the last has 2 of padding."""

    def __init__(self, images: int = 10) -> None:
        random = np.random.default_rng(0)
        self.images = images
        self.pixels = random.normal(size=(12, *SHAPE)).astype(np.float32)
        self.labels = random.integers(0, 6, 12).astype(np.float32)

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        for start in (0, 4, 8):
            part = slice(start, start + 4)
            data, label = mx.nd.array(self.pixels[part]), mx.nd.array(self.labels[part])
            yield Batch(data, label, min(4, 10 - start))


class Apart(Single):
    """A worker that cannot add numbers up with the others."""

    collective = False


def replicas() -> Replicas:
    made = Replicas(build(NetworkRequest("mlp", None, 6, SHAPE)), [mx.cpu()], 4, SHAPE)
    made.initialize(mx.init.Xavier())
    return made


def by_hand(made: Replicas, data: Drawn) -> Counts:
    whole = Replicas(made.symbol, [mx.cpu()], 10, SHAPE)
    whole.load(made.parameters())
    whole.forward(mx.nd.array(data.pixels[:10]))
    return count(Outputs.of(whole.probabilities(), data.labels[:10]), 2)


@pytest.mark.parametrize("strategy", [Single("local", None), Apart("local", None)])
def test_padding_is_not_counted(strategy: Single) -> None:
    made, data = replicas(), Drawn()
    found = evaluate(MXNetLearner(made, strategy), data, strategy, 2)
    assert found is not None
    expected = by_hand(made, data)
    assert found.numbers()[:4] == expected.numbers()[:4]
    assert found.loss == pytest.approx(expected.loss, abs=1e-5)

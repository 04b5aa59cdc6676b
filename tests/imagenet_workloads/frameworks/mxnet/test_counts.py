"""Counting as MXNet counts."""

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.train.counts import count
from imagenet_workloads.train.framework import Outputs


@pytest.mark.parametrize("kind", ["different", "some alike", "all alike", "no numbers"])
def test_counts_are_mxnets(kind: str) -> None:
    random = np.random.default_rng(0)
    scores = random.random((500, 12)).astype(np.float32)
    if kind == "some alike":
        scores = np.round(scores * 2) / np.float32(2)
    elif kind == "all alike":
        scores[:] = 0.5
    elif kind == "no numbers":
        scores[scores < 0.2] = np.nan
        scores[:9] = np.nan
    labels = random.integers(0, 12, 500).astype(np.float32)
    metrics = [mx.metric.Accuracy(), mx.metric.TopKAccuracy(5), mx.metric.TopKAccuracy(3)]
    for metric in metrics:
        metric.update([mx.nd.array(labels)], [mx.nd.array(scores)])
    found = count(Outputs.of(scores, labels), 3)
    assert found.images == 500
    assert [found.top1, found.top5, found.top_k] == [int(metric.sum_metric) for metric in metrics]


def test_loss_is_mxnets_cross_entropy() -> None:
    random = np.random.default_rng(0)
    scores = random.dirichlet(np.ones(10), 64).astype(np.float32)
    labels = random.integers(0, 10, 64).astype(np.float32)
    metric = mx.metric.CrossEntropy()
    metric.update([mx.nd.array(labels)], [mx.nd.array(scores)])
    assert count(Outputs.of(scores, labels), 0).loss == pytest.approx(metric.get()[1], abs=1e-5)

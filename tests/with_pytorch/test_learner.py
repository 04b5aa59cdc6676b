"""What a training step does with its loss, and what several do together."""

import numpy as np
import pytest
import torch

from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from support.pytorch_learners import CLASSES, SHAPE, batch, learner

MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)
PLAIN = ("--mom", "0", "--wd", "0")


@pytest.mark.parametrize("smoothing", [0, 0.2])
def test_labels_are_smoothed(smoothing: float) -> None:
    made = learner(MLP, *PLAIN, "--label-smoothing", str(smoothing))
    before = made.network.fc3.bias.detach().clone()
    _, outputs = made.train(batch(3), True, Flags())
    labels = np.eye(CLASSES)[outputs.labels.astype(int)]
    error = outputs.probabilities - ((1 - smoothing) * labels + smoothing / CLASSES)
    moved = (before - made.network.fc3.bias.detach()).numpy()
    # The rate of the learner is 0.1.
    np.testing.assert_allclose(moved, 0.1 * error.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("label", [-1, CLASSES])
def test_a_label_that_is_no_class_is_named_before_it_is_trained(label: int) -> None:
    given = batch(3)
    given.label[5] = label
    with pytest.raises(InputError, match=f"the label {label}, but the network has 4 classes"):
        learner(MLP).train(given, True, Flags())


def test_batches_together_make_the_update_of_a_large_one() -> None:
    large, small = learner(MLP), learner(MLP)
    for step in range(4):
        whole = batch(step)
        large.train(whole, True, Flags())
        halves = zip(whole.data.split(4), whole.label.split(4), (False, True), strict=True)
        for data, label, updates in halves:
            small.train(Batch(data, label, 4), updates, Flags())
    first = learner(MLP).network.state_dict()
    expected = large.network.state_dict()
    for name, found in small.network.state_dict().items():
        torch.testing.assert_close(found, expected[name])
        assert not torch.allclose(found, first[name])


def test_on_a_cpu_nothing_waits_for_launches() -> None:
    _, outputs = learner().train(batch(0), True, Flags())
    assert outputs.starved is None

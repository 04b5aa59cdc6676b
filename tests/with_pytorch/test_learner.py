"""The loss of a training step, by the gradient of the last layer's bias."""

import numpy as np
import pytest

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

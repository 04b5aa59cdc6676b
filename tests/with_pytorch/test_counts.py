"""Where the right classes stand, as a device finds out itself: the same as NumPy does."""

import numpy as np
import pytest
import torch

from imagenet_workloads.frameworks.pytorch.learner import standings
from imagenet_workloads.train.counts import count
from imagenet_workloads.train.framework import Outputs

IMAGES, CLASSES = 256, 1000


@pytest.mark.parametrize("kind", ["different", "some alike", "all alike", "no numbers"])
def test_a_device_counts_as_the_cpu(kind: str) -> None:
    random = np.random.default_rng(0)
    probabilities = random.random((IMAGES, CLASSES)).astype(np.float32)
    labels = random.integers(0, CLASSES, IMAGES).astype(np.float32)
    if kind == "some alike":
        probabilities = np.round(probabilities * 100) / np.float32(100)
    elif kind == "all alike":
        probabilities[:] = 1 / CLASSES
    elif kind == "no numbers":
        probabilities[probabilities < 0.01] = np.nan
        probabilities[:9] = np.nan
    found = standings(torch.from_numpy(probabilities), torch.from_numpy(labels).long())
    right, ahead, alike = found.numpy()
    seen = Outputs(CLASSES, labels, right, ahead, alike, lambda chosen: probabilities[chosen])
    assert count(seen, 3) == count(Outputs.of(probabilities, labels), 3)
    assert found.dtype == torch.float32

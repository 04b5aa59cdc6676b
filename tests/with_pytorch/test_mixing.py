"""Images and losses are mixed as drawn."""

import numpy as np
import pytest
import torch

from imagenet_workloads.data.mixing import Mixing
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.frameworks.pytorch.mixing import mix_images, summed_loss
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from support.pytorch_learners import CLASSES, SHAPE, batch, differing, learner

MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)


def mixing(shares: list[float], boxes: list[list[int]]) -> Mixing:
    return Mixing(np.array(shares, np.float32), np.array(boxes, np.int64))


def test_an_image_is_mixed_with_the_next_and_the_last_with_the_first() -> None:
    images = torch.tensor([1.0, 2.0, 5.0]).view(3, 1, 1, 1).expand(3, 1, 2, 3)
    chosen = mixing([0.75, 5 / 6, 1], [[0, 0, 0, 0], [1, 2, 2, 3], [0, 0, 0, 0]])
    found = mix_images(images, chosen)
    assert found[0].unique().tolist() == [1.25]
    assert found[1, 0].tolist() == [[2, 2, 2], [2, 2, 5]]
    assert found[2].unique().tolist() == [5]


def test_padding_is_not_mixed() -> None:
    images = torch.tensor([1.0, 3.0, 9.0]).view(3, 1, 1, 1)
    found = mix_images(images, mixing([0.5, 0.5], [[0] * 4] * 2))
    assert found.flatten().tolist() == [2, 2, 9]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_both_labels_by_their_shares(smoothing: float) -> None:
    scores = torch.tensor([[2.0, 0.5, -1.0], [0.0, 1.0, 3.0]])
    shares = [0.7, 0.2]
    logarithms = torch.log_softmax(scores, dim=1).numpy()
    targets = np.array([[0.7, 0.3, 0.0], [0.8, 0.2, 0.0]])
    targets = (1 - smoothing) * targets + smoothing / 3
    labels = torch.tensor([0, 1])
    found = summed_loss(scores, labels, smoothing, mixing(shares, [[0] * 4] * 2))
    assert found.item() == pytest.approx(-(targets * logarithms).sum(), rel=1e-6)


def test_a_batch_with_whole_shares_trains_as_one_without() -> None:
    plain, mixed = learner(MLP), learner(MLP)
    images = batch(1)
    plain.train(images, True, Flags())
    whole = mixing([1.0] * 8, [[0] * 4] * 8)
    mixed.train(Batch(images.data, images.label, 8, mixing=whole), True, Flags())
    assert all(
        torch.allclose(one, other, atol=1e-7)
        for one, other in zip(plain.network.parameters(), mixed.network.parameters(), strict=True)
    )
    half = mixing([0.5] * 8, [[0] * 4] * 8)
    mixed.train(Batch(images.data, images.label, 8, mixing=half), True, Flags())
    plain.train(images, True, Flags())
    assert differing(mixed, plain) != []

"""What PyTorch trains under augmentation, and that labels are mixed as the images are."""

from pathlib import Path

import numpy as np
import pytest
import torch

from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks.pytorch.data import choose
from imagenet_workloads.frameworks.pytorch.mixing import mix_images, summed_loss
from support.augmented import CHANGES, check_augmented
from support.digit_datasets import prepare_digits

CPU = torch.device("cpu")
CLASSES = 10


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_digits(tmp_path_factory.mktemp("digits"), "RecordIO")


@pytest.mark.parametrize("change", CHANGES)
def test_images_change_and_labels_stay(digits: Path, change: str) -> None:
    check_augmented(
        lambda options: choose(options, 0, 1, 1, CPU),
        np.asarray,
        ["--framework", "PyTorch", "--dataset", str(digits)],
        CHANGES[change],
    )


@pytest.mark.parametrize("options", [("--mixup", "1"), ("--cutmix", "1")], ids=lambda one: one[0])
def test_labels_are_mixed_by_the_part_that_each_image_has(
    digits: Path, options: tuple[str, str]
) -> None:
    more = ("--framework", "PyTorch", "--image-shape", "3,28,28", "--batch-size", "64")
    data = choose(parse([*more, "--dataset", str(digits), *options]), 0, 1, 1, CPU)
    batch = next(data.training.epoch(0, 0))
    own, labels = batch.data, batch.label.long()
    mixed, other, others = mix_images(own, batch.mixing), own.roll(-1, 0), labels.roll(-1)
    # The part of an image, by what is left of it.
    parts = ((mixed - other) * (own - other)).sum((1, 2, 3)) / (own - other).square().sum((1, 2, 3))
    if options[0] == "--cutmix":
        outside = ((mixed == own) & (own != other)).any(1).sum((1, 2))
        inside = ((mixed == other) & (own != other)).any(1).sum((1, 2))
        assert torch.equal(outside + inside, (own != other).any(1).sum((1, 2)))
        top, left, bottom, right = batch.mixing.boxes.T
        parts = 1 - torch.from_numpy((bottom - top) * (right - left)) / (28 * 28)
    assert ((parts > 0.05) & (parts < 0.95)).float().mean() > 0.5

    # The gradient of cross-entropy is the difference of what is said and what is wanted.
    scores = torch.zeros(len(labels), CLASSES, requires_grad=True)
    summed_loss(scores, labels, 0.0, batch.mixing).backward()
    wanted = 1 / CLASSES - scores.grad
    expected = torch.zeros_like(wanted)
    expected[range(len(labels)), labels] += parts
    expected[range(len(labels)), others] += 1 - parts
    torch.testing.assert_close(wanted, expected, atol=1e-4, rtol=0)

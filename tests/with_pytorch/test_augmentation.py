"""What PyTorch trains under augmentation, and that labels are mixed as the images are."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.transforms import functional
from torchvision.transforms.autoaugment import _apply_op
from torchvision.transforms.functional import InterpolationMode

from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.augmentation import OPERATIONS, Mixing
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.frameworks.pytorch.data import choose
from imagenet_workloads.frameworks.pytorch.learner import mix_images, summed_loss
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from support.augmented import CHANGES, check_augmented
from support.digit_datasets import prepare_digits
from support.pytorch_learners import CLASSES, SHAPE, batch, differing, learner

CPU = torch.device("cpu")
DIGITS = 10


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
    scores = torch.zeros(len(labels), DIGITS, requires_grad=True)
    summed_loss(scores, labels, 0.0, batch.mixing).backward()
    wanted = 1 / DIGITS - scores.grad
    expected = torch.zeros_like(wanted)
    expected[range(len(labels)), labels] += parts
    expected[range(len(labels)), others] += 1 - parts
    torch.testing.assert_close(wanted, expected, atol=1e-4, rtol=0)


THEIRS = {
    "identity": ("Identity", 0.0),
    "shear-x": ("ShearX", 0.3),
    "shear-y": ("ShearY", 0.3),
    "translate-x": ("TranslateX", 150 / 331 * 60),
    "translate-y": ("TranslateY", 150 / 331 * 40),
    "rotate": ("Rotate", 30.0),
    "brightness": ("Brightness", 0.9),
    "colour": ("Color", 0.9),
    "contrast": ("Contrast", 0.9),
    "sharpness": ("Sharpness", 0.9),
    "posterize": ("Posterize", 4.0),
    "solarize": ("Solarize", 255.0),
    "auto-contrast": ("AutoContrast", 0.0),
    "equalize": ("Equalize", 0.0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_torchvisions(name: str) -> None:
    random = np.random.default_rng(0)
    small = torch.from_numpy(random.integers(40, 200, (3, 10, 15), dtype=np.uint8))
    pixels = functional.resize(small, [40, 60], InterpolationMode.BILINEAR)
    theirs, most = THEIRS[name]
    strength = {"posterize": round(8 - 4 * 0.5), "solarize": 255 * 0.5}.get(name, most * 0.5)
    expected = _apply_op(pixels, theirs, strength, InterpolationMode.NEAREST, [0.0, 0.0, 0.0])
    image = pixels.permute(1, 2, 0).contiguous().numpy()
    wanted = expected.permute(1, 2, 0).numpy().astype(int)
    # Either direction is as likely, so it does not matter which one is whose.
    differences = [
        np.abs(np.asarray(OPERATIONS[name](image, signed, 0), np.uint8).astype(int) - wanted)
        for signed in (0.5, -0.5)
    ]
    nearest = min(differences, key=np.mean)
    change = np.abs(image.astype(int) - wanted).mean()
    assert bool(change > 0.5) is (name != "identity")
    assert nearest.mean() <= 0.1 * change
    # Histograms have another rounding. At the edge of a pixel the two may take different ones.
    assert np.median(nearest) <= (4 if name == "equalize" else 1)
    assert (nearest > 10).mean() < 0.1


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

"""RandAugment's operations do what torchvision's do."""

import numpy as np
import pytest
import torch
from torchvision.transforms import functional
from torchvision.transforms.autoaugment import _apply_op
from torchvision.transforms.functional import InterpolationMode

from imagenet_workloads.data.rand_augment import OPERATIONS

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

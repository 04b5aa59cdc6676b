"""Files of `imagenet-export`, and what `imagenet-predict` says with them."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from imagenet_workloads.commands import export, predict
from imagenet_workloads.exported_files import SUFFIXES

IMAGES = 4


def exported(attempt: Path, format: str, folder: Path) -> Path:
    """Export a result's model into a folder."""
    file = folder / f"digits.{SUFFIXES[format]}"
    assert export.main([str(attempt), "--format", format, "--into", str(file)]) == 0
    return file


def drawn(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> Any:
    """Draw an array of a network, by MXNet's names, so that its outputs depend on the image."""
    if name == "bn_data_gamma":  # MXNet holds it at 1.
        return np.ones(shape, np.float32)
    if name.endswith(("_gamma", "_var")):
        return random.uniform(0.75, 1.25, shape).astype(np.float32)
    if len(shape) < 2:
        return (random.normal(size=shape) * 0.1).astype(np.float32)
    # The scores stay small: with large ones each image has one class of probability 1.
    spread = 0.1 if len(shape) == 2 else 2**0.5
    return (random.normal(size=shape) * spread / np.prod(shape[1:]) ** 0.5).astype(np.float32)


def noise(folder: Path) -> list[str]:
    """Write images of random pixels, each brighter than the one before."""
    random = np.random.default_rng(0)
    paths = [str(folder / f"{number}.png") for number in range(IMAGES)]
    for number, path in enumerate(paths, 1):
        assert cv2.imwrite(path, random.integers(0, 256 * number // IMAGES, (40, 52, 3), np.uint8))
    return paths


def predictions(
    capsys: pytest.CaptureFixture[str], attempt: Path, images: list[str], *options: str
) -> dict[str, dict[str, float]]:
    """Return the probability of each class, by image."""
    capsys.readouterr()
    arguments = ["--model", str(attempt), "--output", "json", "--top", "100", *options]
    assert predict.main([*arguments, *images]) == 0
    documents: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return {
        one["image"]: {found["class"]: found["probability"] for found in one["predictions"]}
        for one in documents
    }


def assert_alike(found: dict[str, dict[str, float]], expected: dict[str, dict[str, float]]) -> None:
    """Compare probabilities. The expected ones must tell images and classes apart."""
    assert found.keys() == expected.keys()
    for image, classes in expected.items():
        assert found[image] == pytest.approx(classes, abs=1e-5)
        assert max(classes.values()) - min(classes.values()) > 1e-3
    first, *others = expected.values()
    assert all(one != pytest.approx(first, abs=1e-4) for one in others)

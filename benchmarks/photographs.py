"""The photographs that `preparation` packs: many views of scikit-learn's two.

Cropped, warped and lit in many ways, about 500x375, in class folders; made from a seed.
"""

import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_sample_images

Pixels = npt.NDArray[np.uint8]

CLASSES = 20


def make_photographs(place: Path, images: int) -> Path:
    """Makes the folder of photographs, in class folders, where it is not there yet."""
    folder = place / f"photographs-{images}"
    if folder.exists():
        return folder
    making = folder.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    photographs = [np.asarray(image)[:, :, ::-1] for image in load_sample_images().images]
    random = np.random.default_rng(0)
    for number in range(images):
        path = making / f"n{number % CLASSES:08}" / f"{number:06}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        view = take_view(photographs[number % len(photographs)], random)
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(random.integers(75, 91))]
        cv2.imwrite(str(path), view, quality)
    making.rename(folder)
    return folder


def take_view(photograph: Pixels, random: np.random.Generator) -> Pixels:
    """A part of a photograph in another perspective and light, one in four upright."""
    width, height = (500, 375) if random.integers(4) else (375, 500)
    width -= int(random.integers(8))
    rows, columns = photograph.shape[:2]
    part = random.uniform(0.75, 1) * min(columns / width, rows / height)
    left = random.uniform(0, columns - part * width)
    top = random.uniform(0, rows - part * height)
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    seen = corners * part + (left, top) + random.uniform(-20, 20, (4, 2))
    view: npt.NDArray[Any] = cv2.warpPerspective(
        photograph,
        cv2.getPerspectiveTransform(seen.astype(np.float32), corners),
        (width, height),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REFLECT,
    )
    light = view * random.uniform(0.8, 1.2) + random.uniform(-15, 15)
    return np.asarray(np.clip(light, 0, 255), np.uint8)

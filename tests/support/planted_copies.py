"""A tree of images with planted copies, as a data check has to find them."""

from pathlib import Path

import cv2
import numpy as np

CLASSES = {"cat": 24, "dog": 22, "owl": 2}
VALIDATION = {"cat": 3, "dog": 3}


def picture(seed: int, height: int = 120, width: int = 160) -> np.ndarray:
    """A picture with large shapes, which JPEG and a resize keep."""
    cells = np.random.default_rng(seed).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    return cv2.resize(cells, (width, height), interpolation=cv2.INTER_CUBIC)


def jpeg(pixels: np.ndarray, quality: int = 95) -> bytes:
    return cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()


def write(root: Path, name: str, content: bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def plain_tree(root: Path) -> None:
    """Write a tree with train and val whose images are all different, and a class of two."""
    numbers = iter(range(1000))
    for split, counts in (("train", CLASSES), ("val", VALIDATION)):
        for name, count in counts.items():
            for number in range(count):
                write(root, f"{split}/{name}/{number}.jpg", jpeg(picture(next(numbers))))


def planted_tree(root: Path) -> Path:
    """Write the same with planted copies, a small and two blank images."""
    plain_tree(root)
    write(root, "val/cat/copied.jpg", (root / "train/cat/1.jpg").read_bytes())
    write(root, "val/dog/encoded.jpg", jpeg(picture(2), 50))
    write(root, "train/cat/resized.jpg", jpeg(cv2.resize(picture(5), (100, 75)), 70))
    write(root, "train/dog/other.jpg", (root / "train/cat/6.jpg").read_bytes())
    write(root, "train/dog/small.jpg", jpeg(picture(900, 24, 32)))
    for number in range(2):
        write(
            root,
            f"train/dog/grey-{number}.jpg",
            jpeg(np.full((120, 160, 3), 99 + number, np.uint8)),
        )
    return root

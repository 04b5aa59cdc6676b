"""Pictures as people take them, packed in every way that the tests of one transform look at."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from imagenet_spec.program.train import Options
from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.worker_data import Data
from imagenet_workloads.fields import Fields
from imagenet_workloads.prediction import prepare as prepare_image
from support.pictures import Pixels, png, with_exif
from support.preparation import prepare

CASES = [(edge, resize) for edge in (28, 32, 64, 224) for resize in (None, round(edge * 9 / 8))]
"""The edge of a network's input, and `preprocessing.resize`."""

PICTURES = 125
"""Of each case, so 1,000 of all."""

SIDE = 1024


@dataclass(frozen=True)
class Packed:
    """A dataset in which each picture is a class, for training and for validation.

    Attributes:
        folder: with dataset.json.
        pictures: the originals, by their label.
    """

    folder: Path
    pictures: tuple[Path, ...]


@cache
def world() -> Pixels:
    """Return RGB pixels with the spectrum of photographs, 1/f; so has each part of them."""
    random = np.random.default_rng(0)
    frequency = np.hypot(np.fft.fftfreq(SIDE, 1.0)[:, None], np.fft.rfftfreq(SIDE, 1.0)[np.newaxis])
    frequency[0, 0] = np.inf
    grey, red, blue = (
        np.fft.irfft2(np.fft.rfft2(random.normal(size=(SIDE, SIDE))) / frequency) for _ in range(3)
    )
    # Most of a photograph is brightness, which all its colours share.
    mixed = np.stack([grey + 0.4 * red, grey, grey + 0.4 * blue], axis=2)
    return np.asarray(np.clip(127 + 55 * mixed / mixed.std(), 0, 255), np.uint8)


def photographs(count: int, edge: int) -> Iterator[Pixels]:
    """Yield RGB pictures, some of them much larger than a small edge."""
    random, most = np.random.default_rng(edge), min(6 * edge, 400)
    for _ in range(count):
        height, width = random.integers(round(edge * 1.2), most, 2)
        top, left = random.integers(0, SIDE - most, 2)
        yield np.ascontiguousarray(world()[top : top + height, left : left + width])


def write_pictures(folder: Path, count: int, edge: int) -> tuple[Path, ...]:
    """Write each picture into a class folder: JPEGs, some of them turned, and PNGs."""
    paths = []
    for number, pixels in enumerate(photographs(count, edge)):
        content = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92])[1]
        name, encoded = "picture.jpg", content.tobytes()
        if number % 10 == 0:
            name, encoded = "picture.png", png(pixels)
        elif number % 10 == 1:
            encoded = with_exif(encoded, 6)
        path = folder / f"{number:04}" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(encoded)
        paths.append(path)
    return tuple(paths)


def packed(folder: Path, edge: int, resize: int | None, codec: str = "auto") -> Packed:
    """Prepare the pictures of a case."""
    pictures = write_pictures(folder / "raw", PICTURES, edge)
    options = ["--shards", "1", "--codec", codec, "--validation-source", str(folder / "raw")]
    if resize is not None:
        options += ["--resize", str(resize)]
    return Packed(prepare(folder / "raw", folder / "data", *options), pictures)


def validation(
    case: Packed, edge: int, choose: Callable[[Options], Data], *options: str
) -> tuple[Inputs, dict[Path, NDArray[np.float32]]]:
    """Return what a training writes of its inputs, and each picture's validation image.

    Args:
        case: the dataset.
        edge: of the network's input.
        choose: opens a framework's data, whose channels come first or last.
        options: further ones of `imagenet-train`.
    """
    arguments = ["--dataset", str(case.folder), "--image-shape", f"3,{edge},{edge}"]
    data = choose(parse([*arguments, "--batch-size", "25", *options]))
    assert data.validation is not None
    shown = {}
    for batch in data.validation.batches(0, 1):
        images, labels = (
            one.asnumpy() if hasattr(one, "asnumpy") else one.numpy()
            for one in (batch.data, batch.label)
        )
        if images.shape[-1] == 3:
            images = images.transpose(0, 3, 1, 2)
        for number in range(batch.images):
            shown[case.pictures[int(labels[number])]] = images[number : number + 1].copy()
    document = json.loads(json.dumps(data.inputs.document()))
    return Inputs.read(Fields(document, "inputs")), shown


def assert_predict_sees_the_same(
    folder: Path, choose: Callable[[Options], Data], *options: str
) -> None:
    """Compare every bit of 1,000 pictures; equal bits have equal classes."""
    count = 0
    for edge, resize in CASES:
        case = packed(folder / f"{edge}-{resize}", edge, resize)
        inputs, shown = validation(case, edge, choose, *options)
        for path, image in shown.items():
            assert np.array_equal(prepare_image(path.read_bytes(), str(path), inputs), image), path
        count += len(shown)
    assert count == 1000

"""The PSNR of each encoder: its pixels against im2rec's, and against the source's."""

import math
import statistics
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from benchmarks.preparation.encoders import Encoder

Pixels = npt.NDArray[np.uint8]

# Records whose pixels are compared.
COMPARED = 200


def compare_pixels(photographs: Path, edge: int, encoders: dict[str, Encoder]) -> dict[str, str]:
    """By encoder, the row's cells: the PSNR against im2rec and against the source."""
    cells = {}
    reference = some_pixels(encoders["im2rec"])
    sources = {key: resized(photographs / key, edge) for key in reference}
    for name, encoder in encoders.items():
        found = reference if name == "im2rec" else some_pixels(encoder)
        to_im2rec = mean_psnr((found[key], reference[key]) for key in reference)
        to_source = mean_psnr((found[key], sources[key]) for key in reference)
        beside = "" if name == "im2rec" else in_decibels(to_im2rec)
        cells[name] = f"{beside} | {in_decibels(to_source)}"
    return cells


def some_pixels(encoder: Encoder) -> dict[str, Pixels]:
    """The pixels of the first records by name, decoded by OpenCV."""
    first = sorted(encoder.images())[:COMPARED]
    return {name: decode(jpeg) for name, jpeg in first}


def decode(jpeg: bytes) -> Pixels:
    """The pixels of a JPEG."""
    pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return np.asarray(pixels, np.uint8)


def resized(path: Path, edge: int) -> Pixels:
    """What im2rec would store if encoding lost nothing."""
    pixels = decode(path.read_bytes())
    height, width = pixels.shape[:2]
    size = (edge, height * edge // width) if height > width else (width * edge // height, edge)
    return np.asarray(cv2.resize(pixels, size), np.uint8)


def mean_psnr(pairs: Iterator[tuple[Pixels, Pixels]]) -> float:
    """Peak signal-to-noise ratio in dB, over the mean square error of all images."""
    errors = [float(np.mean((one.astype(np.float32) - other) ** 2)) for one, other in pairs]
    mean = statistics.fmean(errors)
    return 10 * math.log10(255**2 / mean) if mean else math.inf


def in_decibels(psnr: float) -> str:
    """A PSNR in a cell."""
    return "the same pixels" if math.isinf(psnr) else f"{psnr:.1f} dB"

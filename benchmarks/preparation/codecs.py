"""Measures the codecs by themselves: CPU of one thread on images in memory, and what `auto` takes.

    .venv/bin/python -m benchmarks.preparation.codecs --edges 96,256,480
    .venv/bin/python -m benchmarks.preparation.codecs --photographs FOLDER

A part of `make bench`. Beside them is the floor: libjpeg's decoding, and its encoding of pixels
that are resized already. A figure is the mean of the images' least times.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from benchmarks.photographs import make_photographs
from benchmarks.preparation.encoders import QUALITY
from benchmarks.preparation.programs import BENCH

from imagenet_workloads.prepare import codecs
from imagenet_workloads.prepare.codecs import opencv
from imagenet_workloads.prepare.codecs.codec import Jpeg, Recipe, reduction, target_size
from imagenet_workloads.prepare.transcode import header, transcode

EDGES = (480, 256)
IMAGES, RUNS = 200, 4


def compare_codecs(photographs: Path, edges: Sequence[int] = EDGES) -> None:
    """Print the table of CPU times, by shorter edge and chroma sampling."""
    cv2.setNumThreads(1)
    paths = sorted(photographs.rglob("*.JPEG"))[:IMAGES]
    images = [header(path.read_bytes()) for path in paths]
    print(
        f"CPU of one thread on {len(images)} images in memory, ms an image. `libjpeg` decodes, and "
        "encodes what is resized already; neither codec can be faster. "
        "`auto` chooses for images of one chroma sampling, or for all.\n"
    )
    headings = ("shorter edge", "chroma", "images", "libjpeg", "opencv", "planes", "auto")
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}")
    of_sampling = {
        sampling: [number for number, one in enumerate(images) if one.subsampling == sampling]
        for sampling in ("444", "420")
    }
    chosen = {**of_sampling, "all": list(range(len(images)))}
    for edge in edges:
        times = [_milliseconds(image, edge) for image in images]
        for name, numbers in chosen.items():
            if not numbers:
                continue
            means = np.mean([times[number] for number in numbers], axis=0)
            sample = [images[number] for number in numbers]
            choice = codecs.choose_faster(sample, edge, has_planes=True).codec
            cells = (str(edge), ":".join(name) if name in of_sampling else name, str(len(numbers)))
            print(f"| {' | '.join((*cells, *(f'{mean:.2f}' for mean in means), choice))} |")


def _milliseconds(image: Jpeg, edge: int) -> tuple[float, ...]:
    """Return the CPU times of the floor and of each codec for one image."""
    recipe, target = Recipe(edge, QUALITY), target_size(image.height, image.width, edge)
    factor = reduction(image.height, image.width, target)
    pixels = cv2.resize(opencv.decode(image, factor), target[::-1])

    def floor() -> None:
        opencv.decode(image, factor)
        cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])

    by_codec: list[Callable[[], object]] = [
        partial(transcode, image.data, recipe, codecs.choose(name)) for name in codecs.NAMES
    ]
    best = [float("inf")] * 3
    for _ in range(RUNS):
        for number, work in enumerate([floor, *by_codec]):
            best[number] = min(best[number], _cpu(work))
    return tuple(best)


def _cpu(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1000


def main() -> None:
    """Measures the codecs alone."""
    parser = argparse.ArgumentParser(description="Measure the codecs by themselves.")
    parser.add_argument("--edges", default=EDGES, type=lambda text: [*map(int, text.split(","))])
    parser.add_argument("--photographs", type=Path, help="a folder of .JPEG files of your own")
    parsed = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    compare_codecs(parsed.photographs or make_photographs(BENCH, IMAGES), parsed.edges)


if __name__ == "__main__":
    main()

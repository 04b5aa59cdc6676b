"""Reads batches for a GPU as fast as it can, without a network and without PyTorch.

    taskset --cpu-list 0-3 .venv-pytorch/bin/python -m benchmarks.reading_alone FOLDER

Prints the images per second of imagenet-train's reader on the cores that the process may use.
"""

import argparse
import time
from itertools import count
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.batches import ImageBatch
from imagenet_workloads.data.layouts import Bytes
from imagenet_workloads.data.ordered_data import open_ordered

# Batches until the decoders have started and each lane has been read.
WARM = 8


def main() -> None:
    """Read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="of a dataset")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224, help="of the crops, in pixels")
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    print(speed(options.folder, options.batch, options.size, options.seconds))


def speed(folder: Path, batch: int, pixels: int, seconds: float) -> float:
    """Return the images per second of crops of so many pixels, over about so many seconds."""
    crop = ("--random-crop", "1", "--random-mirror", "1")
    size = ("--image-shape", f"3,{pixels},{pixels}", "--batch-size", str(batch))
    line = ("--framework", "PyTorch", "--dataset", str(folder), *size, *crop)
    data = open_ordered(parse(list(line)), 0, 1, 1, lambda _: Bytes(), _arrays)
    try:
        images, started = 0, time.monotonic()
        batches = (one for epoch in count() for one in data.training.epoch(epoch, 0))
        for number, taken in enumerate(batches):
            if number == WARM:
                images, started = 0, time.monotonic()
            images += taken.images
            if number > WARM and time.monotonic() - started > seconds:
                break
        return images / (time.monotonic() - started)
    finally:
        if data.close is not None:
            data.close()


def _arrays(batch: ImageBatch) -> tuple[NDArray[Any], NDArray[Any]]:
    return batch.images, batch.labels


if __name__ == "__main__":
    main()

"""Packs photographs by im2rec's own calls of OpenCV, in one process and without MXNet.

`encoders` runs it in a virtual environment with the newest OpenCV, so it imports only OpenCV and
the standard library. Its records are those of im2rec.py with the same OpenCV.
"""

import struct
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import cv2

# Of RecordIO, as dmlc-core writes it.
MAGIC = 0xCED7230A
HEADER = struct.Struct("<IfQQ")
# Images that are encoded before the first of them is written.
BATCH = 64


def encoded(path: Path, edge: int, quality: int) -> bytes:
    """The JPEG that im2rec stores of a photograph."""
    image = cv2.imread(str(path), 1)
    assert image is not None, f"{path} cannot be read"
    height, width = image.shape[:2]
    size = (edge, height * edge // width) if height > width else (width * edge // height, edge)
    done, jpeg = cv2.imencode(".jpg", cv2.resize(image, size), [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert done, f"{path} cannot be encoded"
    return jpeg.tobytes()


def listed(lines: Iterator[str]) -> Iterator[tuple[int, float, str]]:
    """Index, label and path of the images of a list of im2rec."""
    for line in lines:
        index, label, path = line.rstrip("\n").split("\t")
        yield int(index), float(label), path


def write(file: BinaryIO, index: int, label: float, jpeg: bytes) -> None:
    """Writes a record, padded to four bytes."""
    content = HEADER.pack(0, label, index, 0) + jpeg
    file.write(struct.pack("<II", MAGIC, len(content)) + content + bytes(-len(content) % 4))


def pack(prefix: Path, photographs: Path, encode: Callable[[Path], bytes], threads: int) -> None:
    """Makes PREFIX.rec and PREFIX.idx of the images in PREFIX.lst."""
    with (
        prefix.with_suffix(".lst").open() as lines,
        prefix.with_suffix(".rec").open("wb") as records,
        prefix.with_suffix(".idx").open("w") as places,
        ThreadPoolExecutor(threads) as pool,
    ):
        images = listed(lines)
        while batch := list(islice(images, BATCH)):
            jpegs = pool.map(encode, [photographs / path for _, _, path in batch])
            for (index, label, _), jpeg in zip(batch, jpegs, strict=True):
                places.write(f"{index}\t{records.tell()}\n")
                write(records, index, label, jpeg)


def main() -> None:
    """Packs what the command line names: PREFIX PHOTOGRAPHS EDGE QUALITY THREADS."""
    prefix, photographs = map(Path, sys.argv[1:3])
    edge, quality, threads = map(int, sys.argv[3:])
    cv2.setNumThreads(1)
    pack(prefix, photographs, lambda path: encoded(path, edge, quality), threads)


if __name__ == "__main__":
    main()

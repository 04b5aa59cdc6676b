"""Reads the images of a shard in the order of the source, and yields them in that of the plan.

The plan is shuffled. A source that is read by large blocks, as Parquet by row groups, would read a
block for each image. So the images of the shard are read once in the order of the source into an
unnamed file on the dataset's volume.
"""

import logging
import os
from collections.abc import Generator, Iterable
from functools import partial
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.plan import PlannedImage
from imagenet_workloads.prepare.read_ahead import ImageRead
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.transcode import read_image

_log = logging.getLogger(__name__)

_Spooled = tuple[int, int] | Exception


def read_in_order(
    source: Source, images: Iterable[PlannedImage], folder: Path
) -> Generator[ImageRead]:
    """Yields the images in their order, after all of them are read.

    Args:
        source: of the images.
        images: of a shard; they and 16 bytes for each are in memory.
        folder: on the volume of the unnamed file.

    Raises:
        InputError: the source has changed since it was listed.
        StorageError: the volume is full.
    """
    planned = list(images)
    order = sorted(range(len(planned)), key=lambda number: planned[number].name)
    places: list[_Spooled] = [(0, 0)] * len(planned)
    end = 0
    with files.unnamed_file(folder) as file:
        read = partial(_read, source)
        found = map_in_order(read, (planned[n] for n in order), source.reads_at_once)
        for number, data in zip(order, found, strict=True):
            if isinstance(data, Exception):
                places[number] = data
                continue
            with files.storage_errors(folder):
                file.write(data)
            places[number] = (end, len(data))
            end += len(data)
        with files.storage_errors(folder):
            file.flush()
        _log.info("%s: read %d images, %.1f MiB", source.where, len(planned), end / 2**20)
        for image, place in zip(planned, places, strict=True):
            # Read here: the file is closed before the last images are taken.
            yield ImageRead(image, partial(_result, _take(file.fileno(), place)))


def _read(source: Source, image: PlannedImage) -> bytes | Exception:
    """The bytes of an image, or the error that its reader handles."""
    try:
        return read_image(source, image.name, image.offset, image.size)
    except (DamagedImageError, OSError) as error:
        return error


def _take(descriptor: int, place: _Spooled) -> bytes | Exception:
    return place if isinstance(place, Exception) else os.pread(descriptor, place[1], place[0])


def _result(data: bytes | Exception) -> bytes:
    if isinstance(data, Exception):
        raise data
    return data

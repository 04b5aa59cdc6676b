"""Reads the images of a shard for the threads that transcode them, in the order of the plan.

One image of a server or bucket takes milliseconds to arrive, most of them spent waiting, so many
are read ahead of their use at the same time. Images of a volume are read by the thread that
transcodes them.

The plan is shuffled. A source that is read by large blocks, as Parquet by row groups, would read a
block for each image. So the images of the shard are read once in the order of the source into an
unnamed file on the dataset's volume.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from imagenet_workloads import files
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.plan import PlannedImage
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.transcode import read_image

# Images in flight or read for each thread.
_AHEAD = 2

_log = logging.getLogger(__name__)

_Spooled = tuple[int, int] | Exception


class ImageRead(NamedTuple):
    """A planned image and its bytes.

    Attributes:
        image: the image.
        bytes: returns the bytes, or raises what `read_image` raises.
    """

    image: PlannedImage
    bytes: Callable[[], bytes]


def read_ahead(source: Source, images: Iterable[PlannedImage]) -> Generator[ImageRead]:
    """Yields the images in their order; those of a remote source may still be on their way.

    Args:
        source: the source of the images.
        images: taken `reads_at_once` * 2 ahead if the source is remote.
    """
    if source.reads_at_once == 1:
        for image in images:
            yield ImageRead(image, partial(_read, source, image))
        return
    waiting: deque[tuple[PlannedImage, Future[bytes]]] = deque()
    pool = ThreadPoolExecutor(source.reads_at_once, thread_name_prefix="read")
    try:
        for image in images:
            waiting.append((image, pool.submit(_read, source, image)))
            if len(waiting) >= source.reads_at_once * _AHEAD:
                yield _taken(*waiting.popleft())
        while waiting:
            yield _taken(*waiting.popleft())
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    # The last images are still on their way.
    pool.shutdown(wait=False)


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
        read = partial(_read_or_error, source)
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
            if isinstance(place, Exception):
                yield ImageRead(image, partial(_result, place))
                continue
            begin, length = place
            # Read here: the file is closed before the last images are taken.
            yield ImageRead(image, partial(_result, os.pread(file.fileno(), length, begin)))


def _taken(image: PlannedImage, read: Future[bytes]) -> ImageRead:
    return ImageRead(image, read.result)


def _read(source: Source, image: PlannedImage) -> bytes:
    return read_image(source, image.name, image.offset, image.size)


def _read_or_error(source: Source, image: PlannedImage) -> bytes | Exception:
    """The bytes of an image, or the error that its reader handles."""
    try:
        return _read(source, image)
    except (DamagedImageError, OSError) as error:
        return error


def _result(data: bytes | Exception) -> bytes:
    if isinstance(data, Exception):
        raise data
    return data

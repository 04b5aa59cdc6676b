"""Reads images of a remote source ahead of their use, many at the same time.

One image of a server or bucket takes milliseconds to arrive, most of them spent waiting. Images of
a volume are read by the thread that transcodes them.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from imagenet_workloads.prepare.plan import PlannedImage
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.transcode import read_image

# Images in flight or read for each thread.
_AHEAD = 2


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


def _taken(image: PlannedImage, read: Future[bytes]) -> ImageRead:
    return ImageRead(image, read.result)


def _read(source: Source, image: PlannedImage) -> bytes:
    return read_image(source, image.name, image.offset, image.size)

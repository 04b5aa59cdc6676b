"""A few packed images, with which pack measures how many of them one core decodes in a second.

Training decodes the same images. Its reader crops first, so it decodes somewhat more.
"""

import time
from collections.abc import Iterable

import simplejpeg

from imagenet_workloads.records.format import StoredImage

IMAGES = 16
"""Few, so that decoding them takes less than a hundredth of packing a shard."""


class DecodeSample:
    """The first images of the first shard, which are a random choice: records are shuffled."""

    def __init__(self) -> None:
        """Begin without an image."""
        self._jpegs: list[bytes] = []

    def offer(self, images: Iterable[StoredImage]) -> None:
        """Keep images until there are enough."""
        if len(self._jpegs) < IMAGES:
            self._jpegs += [image.jpeg for image in images]
            del self._jpegs[IMAGES:]

    def images_per_second(self) -> float | None:
        """Return the images divided by the CPU time that decoding them takes; None without any."""
        started = time.thread_time()
        for jpeg in self._jpegs:
            simplejpeg.decode_jpeg(jpeg, fastdct=False, fastupsample=False)
        seconds = time.thread_time() - started
        return len(self._jpegs) / seconds if seconds > 0 else None

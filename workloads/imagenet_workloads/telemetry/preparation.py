"""What a preprocessing pod reports, as methods named after what happened.

`imagenet-index` and `imagenet-pack` call these; any of their threads may.
"""

import threading
from typing import Protocol

from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import names
from imagenet_workloads.telemetry.names import Metric


class Sink(Protocol):
    """What the recorder writes to; `Registry` is one."""

    def add(self, metric: Metric, amount: float) -> None:
        """Adds to a counter."""

    def set(self, metric: Metric, value: float) -> None:
        """Sets a gauge."""


class NullSink:
    """A sink for programs whose metrics nobody asks for."""

    def add(self, metric: Metric, amount: float) -> None:
        """Forgets it."""

    def set(self, metric: Metric, value: float) -> None:
        """Forgets it."""


class PreparationRecorder:
    """Writes a preprocessing pod's metrics to a registry, and derives its progress."""

    def __init__(self, registry: Sink) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._planned: int | None = None
        self._done = 0
        self._listed = 0
        registry.add(names.PREPARE_IMAGES, 0)
        registry.add(names.PREPARE_SKIPPED_IMAGES, 0)

    def planned(self, images: int) -> None:
        """How many images this pod is to deal with, damaged ones included."""
        with self._lock:
            self._planned = images
        self._registry.set(names.PREPARE_IMAGES_PLANNED, images)
        self._finish(0)

    def listed(self, images: int = 1, share: float = 0.0) -> None:
        """Images found in the source; only index calls this.

        Args:
            images: found since the last call.
            share: of the source that all so far were found in, 0 to 1; 0 where that is not known.
        """
        with self._lock:
            self._listed += images
            expected = round(self._listed / share) if share > 0 else None
        self._registry.add(names.PREPARE_IMAGES, images)
        if expected is not None:
            self._registry.set(names.PREPARE_IMAGES_PLANNED, expected)

    def packed(self, images: int, bytes: int) -> None:
        """Images written to the shard, and the bytes of records that they took."""
        self._registry.add(names.PREPARE_IMAGES, images)
        self._registry.add(names.PREPARE_BYTES, bytes)
        self._finish(images)

    def skipped(self, images: int = 1) -> None:
        """Damaged images that were left out."""
        self._registry.add(names.PREPARE_SKIPPED_IMAGES, images)
        self._finish(images)

    def _finish(self, images: int) -> None:
        with self._lock:
            self._done += images
            if self._planned is not None:
                # A shard without images has nothing left to do.
                ratio = self._done / self._planned if self._planned else 1.0
                self._registry.set(names.PREPARE_SHARD_PROGRESS, ratio)


def start(environment: Environment) -> PreparationRecorder:
    """Serves a program's metrics where the environment asks for that; returns their recorder.

    Only then is prometheus_client loaded, which takes longer than packing a hundred images.
    """
    if environment.metrics_port == 0:
        return PreparationRecorder(NullSink())
    from imagenet_workloads.telemetry import server

    return PreparationRecorder(server.start(environment))

"""The metrics of a preparation pod, as methods for what happened.

`imagenet-fetch`, `imagenet-index` and `imagenet-pack` call them, from any thread.
"""

import threading
from typing import Protocol

from imagenet_spec import metrics
from imagenet_spec.metrics import Metric
from imagenet_workloads.environment import Environment


class Sink(Protocol):
    """The destination of metrics; implemented by `Registry`."""

    def add(self, metric: Metric, amount: float) -> None:
        """Add to a counter."""

    def set(self, metric: Metric, value: float) -> None:
        """Set a gauge."""


class NullSink:
    """A sink for programs without exported metrics."""

    def add(self, metric: Metric, amount: float) -> None:
        pass

    def set(self, metric: Metric, value: float) -> None:
        pass


class PreparationRecorder:
    """Writes a preparation pod's metrics to a registry, and computes its progress."""

    def __init__(self, registry: Sink) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._planned: int | None = None
        self._done = 0
        self._listed = 0
        self._fetched = 0
        self._asked = 0
        registry.add(metrics.PREPARE_IMAGES, 0)
        registry.add(metrics.PREPARE_SKIPPED_IMAGES, 0)

    def planned(self, images: int) -> None:
        """Set the number of images of this pod, damaged ones included."""
        with self._lock:
            self._planned = images
        self._registry.set(metrics.PREPARE_IMAGES_PLANNED, images)
        self._finish(0)

    def listed(self, images: int = 1, share: float = 0.0) -> None:
        """Count images found in the source since the last call; only for index.

        `share` is the fraction of the source that is listed, 0 to 1; 0 if it is not known.
        """
        with self._lock:
            self._listed += images
            expected = round(self._listed / share) if share > 0 else None
        self._registry.add(metrics.PREPARE_IMAGES, images)
        if expected is not None:
            self._registry.set(metrics.PREPARE_IMAGES_PLANNED, expected)

    def listing_estimated(self, requests: int, bytes: int, seconds: int) -> None:
        self._registry.set(metrics.PREPARE_LISTING_REQUESTS, requests)
        self._registry.set(metrics.PREPARE_LISTING_BYTES, bytes)
        self._registry.set(metrics.PREPARE_LISTING_SECONDS, seconds)

    def packing_estimated(self, requests: int, bytes: int, seconds: int) -> None:
        """Set what reading the images of a remote archive takes, in one pod of pack."""
        self._registry.set(metrics.PREPARE_PACKING_REQUESTS, requests)
        self._registry.set(metrics.PREPARE_PACKING_BYTES, bytes)
        self._registry.set(metrics.PREPARE_PACKING_SECONDS, seconds)

    def packed(self, images: int, bytes: int) -> None:
        self._registry.add(metrics.PREPARE_IMAGES, images)
        self._registry.add(metrics.PREPARE_BYTES, bytes)
        self._finish(images)

    def skipped(self, images: int = 1) -> None:
        self._registry.add(metrics.PREPARE_SKIPPED_IMAGES, images)
        self._finish(images)

    def decoded(self, images_per_second: float) -> None:
        self._registry.set(metrics.PREPARE_DECODED_IMAGES_PER_SECOND, images_per_second)

    def requested(self, requests: int, bytes: int) -> None:
        self._registry.add(metrics.PREPARE_REQUESTS, requests)
        self._registry.add(metrics.PREPARE_READ_BYTES, bytes)

    def fetch_files(self, files: int) -> None:
        self._registry.set(metrics.PREPARE_FETCH_FILES, files)
        self._registry.set(metrics.PREPARE_FETCH_ASKED_FILES, 0)

    def fetch_asked(self) -> None:
        with self._lock:
            self._asked += 1
            self._registry.set(metrics.PREPARE_FETCH_ASKED_FILES, self._asked)

    def fetch_planned(self, bytes: int) -> None:
        self._registry.set(metrics.PREPARE_FETCH_PLANNED_BYTES, bytes)

    def fetched(self, bytes: int) -> None:
        """Count bytes in the cache; a negative number is fetched again."""
        with self._lock:
            self._fetched += bytes
            self._registry.set(metrics.PREPARE_FETCHED_BYTES, self._fetched)

    def _finish(self, images: int) -> None:
        with self._lock:
            self._done += images
            if self._planned is not None:
                # A shard without images is complete.
                ratio = self._done / self._planned if self._planned else 1.0
                self._registry.set(metrics.PREPARE_SHARD_PROGRESS, ratio)


def start(environment: Environment) -> PreparationRecorder:
    """Serve a program's metrics if the environment asks for it; return their recorder.

    Only then is prometheus_client imported, which takes longer than packing a hundred images.
    """
    if environment.metrics_port == 0:
        return PreparationRecorder(NullSink())
    from imagenet_workloads.telemetry import server

    return PreparationRecorder(server.start(environment))

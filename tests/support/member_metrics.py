"""Prometheus texts as the members' client writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from imagenet_operator.reconcile.sample import Asked, Sample
from imagenet_spec import metrics

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
INTERVAL = timedelta(seconds=15)
LATER = NOW + INTERVAL
WORKER = Asked("worker", 0)
BOTH = {"a": WORKER, "b": WORKER}
SPEED = "imagenet_train_images_per_second"


class Exporter:
    """A member's registry with the labels that every series carries."""

    def __init__(self, role: str, attempt: int | None = None) -> None:
        self.registry = CollectorRegistry()
        self.labels = {
            "imagenet_job": "digits",
            "namespace": "default",
            "role": role,
            "attempt": "" if attempt is None else str(attempt),
        }

    def gauge(self, name: str, value: float) -> Exporter:
        Gauge(name, "help", self.labels, registry=self.registry).labels(**self.labels).set(value)
        return self

    def counter(self, name: str, value: float) -> Exporter:
        Counter(name, "help", self.labels, registry=self.registry).labels(**self.labels).inc(value)
        return self

    def histogram(self, name: str, *values: float) -> Exporter:
        series = Histogram(name, "help", self.labels, registry=self.registry).labels(**self.labels)
        for value in values:
            series.observe(value)
        return self

    @property
    def text(self) -> str:
        return generate_latest(self.registry).decode()


def worker(rank: int, *, attempt: int = 0, images: float = 640, batch: int = 5) -> Exporter:
    return (
        Exporter("worker", attempt)
        .gauge(metrics.TRAIN_RANK.name, rank)
        .counter(metrics.TRAIN_IMAGES.name, images)
        .gauge(SPEED, 100 + rank)
        .gauge("imagenet_train_epoch", 2)
        .gauge(metrics.TRAIN_EPOCHS.name, 10)
        .gauge(metrics.TRAIN_BATCH.name, batch)
        .gauge(metrics.TRAIN_BATCHES_PER_EPOCH.name, 20)
        .gauge("imagenet_train_top1", 0.75 - rank / 4)
        .gauge("imagenet_train_validation_top1", 0.5)
        .histogram("imagenet_train_step_seconds", 1.0, 2.0)
        .histogram("imagenet_train_data_wait_seconds", 0.25, 0.5)
    )


def speed(sample: Sample) -> float | None:
    return sample.figures.get("images_per_second")

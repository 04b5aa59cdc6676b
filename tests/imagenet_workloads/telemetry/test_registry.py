from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import generate_latest

from imagenet_spec import metrics
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry.registry import Registry

WORKER = Environment(job="digits", namespace="vision", role="worker", attempt=2)
LABELS = {"imagenet_job": "digits", "namespace": "vision", "role": "worker", "attempt": "2"}


@pytest.fixture
def registry() -> Registry:
    return Registry(WORKER)


def value(registry: Registry, name: str, **more: str) -> float | None:
    return registry.exported.get_sample_value(name, {**LABELS, **more})


def test_a_metric_is_absent_until_it_has_a_value(registry: Registry) -> None:
    assert "imagenet_" not in generate_latest(registry.exported).decode().replace(
        "imagenet_job", ""
    )
    registry.set(metrics.TRAIN_VALIDATION_TOP1, 0.0)
    assert value(registry, "imagenet_train_validation_top1") == 0.0


def test_every_series_carries_the_fixed_labels(registry: Registry) -> None:
    registry.add(metrics.TRAIN_IMAGES, 1)
    registry.set(metrics.TRAIN_EPOCH, 1)
    registry.observe(metrics.TRAIN_STEP_SECONDS, 1)
    samples = [sample for family in registry.exported.collect() for sample in family.samples]
    for sample in samples:
        assert LABELS.items() <= sample.labels.items(), sample.name
    assert {sample.name for sample in samples} >= {
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    }


def test_by_hand_role_and_attempt_are_empty() -> None:
    registry = Registry(Environment())
    registry.set(metrics.TRAIN_EPOCH, 1)
    labels = {"imagenet_job": "local", "namespace": "default", "role": "", "attempt": ""}
    assert registry.exported.get_sample_value("imagenet_train_epoch", labels) == 1


def test_counters_add_gauges_replace_histograms_sort(registry: Registry) -> None:
    for amount in (0, 2, 3):
        registry.add(metrics.TRAIN_IMAGES, amount)
        registry.set(metrics.TRAIN_LOSS, amount)
        registry.observe(metrics.TRAIN_STEP_SECONDS, amount)
    assert value(registry, "imagenet_train_images_total") == 5
    assert value(registry, "imagenet_train_loss") == 3
    assert value(registry, "imagenet_train_step_seconds_count") == 3
    assert value(registry, "imagenet_train_step_seconds_sum") == 5
    assert value(registry, "imagenet_train_step_seconds_bucket", le="2.5") == 2


def test_each_registry_is_its_own(registry: Registry) -> None:
    other = Registry(WORKER)
    registry.add(metrics.TRAIN_IMAGES, 5)
    other.add(metrics.TRAIN_IMAGES, 1)
    assert value(registry, "imagenet_train_images_total") == 5
    assert value(other, "imagenet_train_images_total") == 1


def test_no_second_series_for_the_time_of_creation(registry: Registry) -> None:
    registry.add(metrics.TRAIN_IMAGES, 1)
    assert "_created" not in generate_latest(registry.exported).decode()


def test_threads_lose_nothing(registry: Registry) -> None:
    def work(_: int) -> None:
        for _ in range(500):
            registry.add(metrics.PREPARE_IMAGES, 1)
            registry.observe(metrics.TRAIN_STEP_SECONDS, 0.1)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert value(registry, "imagenet_prepare_images_total") == 4000
    assert value(registry, "imagenet_train_step_seconds_count") == 4000

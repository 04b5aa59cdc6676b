"""One page of metrics out of those of several slots."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from imagenet_spec.metrics import TRAINING, MetricType, Phase
from imagenet_workloads.environment import Environment
from imagenet_workloads.slots.metrics import aggregate
from imagenet_workloads.telemetry.registry import Registry
from imagenet_workloads.telemetry.training import ReadingTimes, TrainingRecorder


class Page(Collector):
    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> list[Family]:
        return self._families


def merged(*pages: str) -> str:
    """The page that a scrape of the pod shows."""
    registry = CollectorRegistry()
    registry.register(Page(aggregate(pages)))
    return generate_latest(registry).decode()


def values(page: str) -> dict[str, float]:
    return {
        sample.name
        + "".join(
            f"|{sample.labels[name]}" for name in ("le",) if name in sample.labels
        ): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def slot(rank: int, images: int, seconds: float, loss: float | None = None) -> str:
    """The page of a slot that has trained one step."""
    registry = Registry(Environment(job="digits", role="worker", attempt=0))
    recorder = TrainingRecorder(registry)
    recorder.plan(epochs=5, batches_per_epoch=20, rank=rank)
    recorder.phase(Phase.TRAINING)
    recorder.position(epoch=1, batch=3)
    recorder.step(images, seconds, 0.001)
    recorder.exchange(seconds)
    recorder.reading(lambda: ReadingTimes(seconds, 0.0, seconds, seconds))
    recorder.speed(images / seconds)
    recorder.learning_rate(lambda: 0.1)
    recorder.accuracy(loss=loss)
    return generate_latest(registry.exported).decode()


def test_the_page_of_64_slots_is_as_small_as_the_operator_asks_for() -> None:
    page = merged(*(slot(rank, images=32, seconds=0.1) for rank in range(64)))
    assert values(page)["imagenet_train_images_total"] == 64 * 32
    # The operator reads 64 KiB of a pod's answer.
    assert len(page.encode()) < 64 << 10


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("imagenet_train_images_total", 96.0),
        ("imagenet_train_images_per_second", 64 / 0.02 + 32 / 0.08),
        ("imagenet_train_step_seconds_count", 2.0),
        ("imagenet_train_step_seconds_sum", 0.1),
        ("imagenet_train_step_seconds_bucket|0.025", 1.0),
        ("imagenet_train_step_seconds_bucket|0.1", 2.0),
        ("imagenet_train_step_seconds_bucket|+Inf", 2.0),
        ("imagenet_train_epoch", 1.0),
        ("imagenet_train_epochs", 5.0),
        ("imagenet_train_batch", 3.0),
        ("imagenet_train_batches_per_epoch", 20.0),
        ("imagenet_train_learning_rate", 0.1),
        ("imagenet_train_loss", 0.5),
        ("imagenet_train_rank", 4.0),
    ],
)
def test_what_a_pod_shows_of_two_slots(name: str, expected: float) -> None:
    page = merged(slot(4, 64, 0.02, loss=0.5), slot(5, 32, 0.08, loss=0.7))
    assert values(page)[name] == pytest.approx(expected)


def of_slots(page: str, name: str) -> dict[str, float]:
    """A metric's values by slot."""
    return {
        sample.labels.get("slot", ""): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


def test_the_time_before_an_exchange_is_shown_of_each_slot() -> None:
    page = merged(slot(4, 64, 0.02), slot(5, 32, 0.08))
    name = "imagenet_train_before_exchange_seconds_total"
    assert of_slots(page, name) == pytest.approx({"0": 0.02, "1": 0.08})
    assert of_slots(page, "imagenet_train_exchanges_total") == {"0": 1.0, "1": 1.0}
    assert of_slots(page, "imagenet_train_images_total") == {"": 96.0}


def test_memory_is_the_pods() -> None:
    pages = slot(0, 1, 1.0), slot(1, 1, 1.0)
    name = "process_resident_memory_bytes"
    assert values(merged(*pages))[name] == sum(values(page)[name] for page in pages)


def test_the_page_of_the_most_slots_is_no_longer_than_the_operator_reads() -> None:
    """The operator leaves out a member whose page is longer (tests/contract/test_metrics.py)."""
    pages = [slot(rank, 2**40, 0.02, loss=1 / 3) for rank in range(64)]
    assert len(merged(*pages).encode()) < 32 << 10


def test_one_slot_is_shown_as_it_is() -> None:
    page = slot(0, 64, 0.02, loss=0.5)
    assert merged(page) == page


def test_a_slot_that_has_not_answered_yet_takes_nothing_away() -> None:
    page = slot(1, 64, 0.02, loss=0.5)
    assert values(merged("", page)) == values(page)
    assert merged("", "") == ""


def test_a_figure_that_only_a_later_slot_has_is_shown() -> None:
    assert values(merged(slot(0, 1, 1.0), slot(1, 1, 1.0, loss=0.7)))["imagenet_train_loss"] == 0.7


def test_labels_and_types_stay() -> None:
    page = merged(slot(0, 64, 0.02), slot(1, 64, 0.02))
    labels = 'attempt="0",imagenet_job="digits",namespace="default",role="worker"'
    assert f"imagenet_train_images_total{{{labels}}} 128.0\n" in page
    types = {
        f"# TYPE {metric.name} {metric.kind}"
        for metric in TRAINING
        if metric.kind != MetricType.GAUGE
    }
    assert types <= set(page.splitlines())


def test_series_that_differ_in_a_label_stay_apart() -> None:
    page = "# TYPE seen_total counter\n"
    first = page + 'seen_total{kind="a"} 1.0\nseen_total{kind="b"} 2.0\n'
    second = page + 'seen_total{kind="b"} 4.0\nseen_total{kind="c"} 8.0\n'
    found = merged(first, second)
    assert [line for line in found.splitlines() if line[0] != "#"] == [
        'seen_total{kind="a"} 1.0',
        'seen_total{kind="b"} 6.0',
        'seen_total{kind="c"} 8.0',
    ]


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=6))
def test_counts_of_any_number_of_slots_add_up_exactly(counts: list[int]) -> None:
    pages = [f"# TYPE seen_total counter\nseen_total {float(count)}\n" for count in counts]
    assert values(merged(*pages))["seen_total"] == sum(counts)


def test_the_time_of_slots_that_run_at_once_is_not_added() -> None:
    first, second = slot(0, 64, 0.02), slot(1, 64, 0.02)
    lines = [line for line in first.splitlines() if "train_seconds" in line]
    assert [line for line in merged(first, second).splitlines() if "train_seconds" in line] == lines

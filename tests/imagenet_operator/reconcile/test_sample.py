"""The sample: Prometheus texts as the members' client writes them, and what a job's figures are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from imagenet_operator.manifests import labels
from imagenet_operator.reconcile import sample as names
from imagenet_operator.reconcile.sample import LONGEST_CHECKPOINT, Asked, Sample, parse_sample
from imagenet_workloads.telemetry import names as workload_names

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
        .gauge(names.TRAIN_RANK, rank)
        .counter(names.TRAIN_IMAGES, images)
        .gauge(SPEED, 100 + rank)
        .gauge("imagenet_train_epoch", 2)
        .gauge(names.TRAIN_EPOCHS, 10)
        .gauge(names.TRAIN_BATCH, batch)
        .gauge(names.TRAIN_BATCHES, 20)
        .gauge("imagenet_train_top1", 0.75 - rank / 4)
        .gauge("imagenet_train_validation_top1", 0.5)
        .histogram("imagenet_train_step_seconds", 1.0, 2.0)
        .histogram("imagenet_train_data_wait_seconds", 0.25, 0.5)
    )


def speed(sample: Sample) -> float | None:
    return sample.figures.get("images_per_second")


def data_wait(sample: Sample) -> float | None:
    return sample.figures.get("data_wait_share")


def top1(sample: Sample) -> float | None:
    return sample.figures.get("accuracy.train")


def test_figures_of_a_job_come_from_all_workers_and_from_rank_0() -> None:
    texts = {
        "digits-r0-worker-0": worker(1).text,
        "digits-r0-worker-1": worker(0).text,
        "digits-r0-scheduler-0": Exporter("scheduler", 0).gauge("process_up", 1).text,
    }
    sample = parse_sample(texts, None, NOW)
    assert (sample.attempt, sample.epoch, sample.epochs) == (0, 2, 10)
    assert (sample.batch, sample.batches_per_epoch) == (5, 20)
    assert speed(sample) == 201
    assert (top1(sample), sample.figures.get("accuracy.validation")) == (
        0.75,
        0.5,
    )
    assert data_wait(sample) == 0.25
    assert sample.progressed_at == sample.taken_at == NOW


def test_only_the_newest_attempt_counts() -> None:
    texts = {
        "digits-r0-worker-0": worker(0, attempt=0).text,
        "digits-r1-worker-0": worker(0, attempt=1, batch=1).text,
    }
    sample = parse_sample(texts, None, NOW)
    assert (sample.attempt, sample.batch, speed(sample)) == (1, 1, 100)


def test_without_rank_0_the_sum_is_known_and_the_rest_is_not() -> None:
    sample = parse_sample({"digits-r0-worker-0": worker(1).text}, None, NOW)
    assert speed(sample) == 101
    assert (sample.epoch, sample.batch, top1(sample)) == (None, None, None)


@pytest.mark.parametrize(
    ("second", "progressed_at"),
    [
        pytest.param({"a": worker(0)}, NOW, id="stands still"),
        pytest.param({"a": worker(0, images=704)}, LATER, id="more images"),
        pytest.param({"a": worker(0, batch=6)}, LATER, id="another batch"),
        pytest.param({"a": worker(0), "b": worker(1)}, LATER, id="a member joins"),
        pytest.param({"a": worker(0, attempt=1)}, LATER, id="another attempt"),
        pytest.param({"a": worker(0, images=32)}, NOW, id="a counter falls"),
    ],
)
def test_progress_is_a_rise_since_the_last_sample(
    second: dict[str, Exporter], progressed_at: datetime
) -> None:
    first = parse_sample({"a": worker(0).text}, None, NOW)
    sample = parse_sample({pod: item.text for pod, item in second.items()}, first, LATER)
    assert sample.progressed_at == progressed_at


def test_hearing_a_member_again_is_no_progress() -> None:
    both = {"a": worker(0).text, "b": worker(1).text}
    first = parse_sample(both, None, NOW)
    second = parse_sample({"a": both["a"]}, first, LATER)
    third = parse_sample(both, second, LATER + timedelta(seconds=15))
    rank_0_silent = parse_sample({"b": both["b"]}, third, LATER + timedelta(seconds=30))
    last = parse_sample(both, rank_0_silent, LATER + timedelta(seconds=45))
    assert {item.progressed_at for item in (second, third, rank_0_silent, last)} == {NOW}


def test_a_worker_that_is_late_now_and_then_leaves_the_figures_as_they_were() -> None:
    """One or the other is missing in every second look: a checkpoint takes longer than the wait."""
    texts = {"a": worker(0).text, "b": worker(1).text}
    whole = sample = parse_sample(texts, None, NOW, BOTH)
    assert (speed(whole), whole.epoch, whole.batch) == (201, 2, 5)
    for number, late in enumerate("abab", start=1):
        for heard in ({pod: texts[pod] for pod in texts if pod != late}, texts):
            now = NOW + number * INTERVAL
            sample = parse_sample(heard, sample, now, BOTH)
            assert sample == replace(whole, taken_at=now, whole_at=sample.whole_at)


@pytest.mark.parametrize("heard", [{"a": worker(0).text}, {}])
def test_the_speed_of_workers_of_whom_one_is_silent_for_good_is_not_kept(
    heard: dict[str, str],
) -> None:
    texts = {"a": worker(0).text, "b": worker(1).text}
    whole = parse_sample(texts, None, NOW, BOTH)
    patient = parse_sample(heard, whole, NOW + LONGEST_CHECKPOINT, BOTH)
    assert (speed(patient), data_wait(patient)) == (
        201,
        0.25,
    )
    sample = parse_sample(heard, patient, patient.taken_at + INTERVAL, BOTH)
    assert (speed(sample), data_wait(sample)) == (
        None,
        None,
    )
    assert (sample.epoch, top1(sample)) == (2, 0.75)
    again = parse_sample(texts, sample, sample.taken_at + INTERVAL, BOTH)
    assert speed(again) == 201


def test_a_worker_that_serves_no_metrics_is_not_waited_for_for_ever() -> None:
    """An image of a user's own may report the speed of all workers from one of them."""
    texts = {"a": worker(0).text}
    sample = parse_sample(texts, None, NOW, BOTH)
    while sample.taken_at < NOW + LONGEST_CHECKPOINT:
        sample = parse_sample(texts, sample, sample.taken_at + INTERVAL, BOTH)
        assert speed(sample) is None
    sample = parse_sample(texts, sample, sample.taken_at + INTERVAL, BOTH)
    assert (speed(sample), data_wait(sample)) == (100, 0.25)
    # Once it answers, it counts, and is missed like any other.
    both = {**texts, "b": worker(1).text}
    whole = parse_sample(both, sample, sample.taken_at + INTERVAL, BOTH)
    assert speed(whole) == 201
    late = parse_sample(texts, whole, whole.taken_at + LONGEST_CHECKPOINT + INTERVAL, BOTH)
    assert speed(late) is None


def test_the_wait_for_first_answers_begins_with_the_attempt() -> None:
    texts = {"a": worker(0).text}
    first = parse_sample(texts, None, NOW, BOTH)
    later = NOW + LONGEST_CHECKPOINT + INTERVAL
    asked = {"c": Asked("worker", 1), "d": Asked("worker", 1)}
    second = parse_sample({"c": worker(0, attempt=1).text}, first, later, asked)
    assert (second.heard_since, speed(second)) == (later, None)


@pytest.mark.parametrize(
    ("heard", "epoch", "accuracy"),
    [
        pytest.param({"a": worker(0)}, 2, 0.75, id="rank 0"),
        pytest.param({"b": worker(1)}, None, None, id="another"),
    ],
)
def test_before_all_workers_have_answered_nobody_knows_how_fast_they_are(
    heard: dict[str, Exporter], epoch: int | None, accuracy: float | None
) -> None:
    sample = parse_sample({pod: item.text for pod, item in heard.items()}, None, NOW, BOTH)
    assert (
        sample.attempt,
        speed(sample),
        data_wait(sample),
    ) == (0, None, None)
    assert (sample.epoch, top1(sample)) == (epoch, accuracy)
    assert sample.progressed_at == NOW


def test_the_speed_of_another_attempt_is_not_kept() -> None:
    texts = {"a": worker(0).text, "b": worker(1).text}
    former = parse_sample(texts, None, NOW, BOTH)
    asked = {"c": Asked("worker", 1), "d": Asked("worker", 1)}
    sample = parse_sample({"c": worker(1, attempt=1).text}, former, LATER, asked)
    assert (sample.attempt, speed(sample), sample.epoch) == (
        1,
        None,
        None,
    )


@pytest.mark.parametrize(
    "silent", [Asked("worker", 0), Asked("scheduler", 1), Asked("server", 1), Asked("pack", None)]
)
def test_only_the_workers_of_the_attempt_are_waited_for(silent: Asked) -> None:
    asked = {"a": Asked("worker", 1), "b": silent}
    sample = parse_sample({"a": worker(0, attempt=1).text}, None, NOW, asked)
    assert speed(sample) == 100


def test_a_worker_that_is_not_asked_any_more_is_not_missed() -> None:
    texts = {"a": worker(0).text, "b": worker(1).text}
    both = parse_sample(texts, None, NOW, BOTH)
    left = parse_sample({"b": texts["b"]}, both, LATER, {"b": WORKER})
    assert (speed(left), left.epoch, left.progressed_at) == (
        101,
        None,
        NOW,
    )


@pytest.mark.parametrize("late", ["a", "b"])
def test_who_answers_and_gets_on_is_progress_whoever_else_is_late(late: str) -> None:
    texts = {"a": worker(0).text, "b": worker(1).text}
    first = parse_sample(texts, None, NOW, BOTH)
    further = {"a": worker(0, images=704), "b": worker(1, images=704)}
    heard = {pod: item.text for pod, item in further.items() if pod != late}
    second = parse_sample(heard, first, LATER, BOTH)
    assert (second.progressed_at, second.silent_since) == (LATER, None)
    third = parse_sample(heard, second, LATER + INTERVAL, BOTH)
    assert third.progressed_at == LATER


def test_a_batch_of_rank_0_is_progress_once_while_another_is_late() -> None:
    first = parse_sample({"a": worker(0).text, "b": worker(1).text}, None, NOW, BOTH)
    further = {"a": worker(0, batch=6).text}
    second = parse_sample(further, first, LATER, BOTH)
    assert (second.batch, speed(second), second.progressed_at) == (
        6,
        201,
        LATER,
    )
    third = parse_sample(further, second, LATER + INTERVAL, BOTH)
    assert third.progressed_at == LATER


def test_what_was_heard_stays_while_nobody_answers() -> None:
    asked = {"a": WORKER}
    first = parse_sample({"a": worker(0).text}, None, NOW, asked)
    assert (first.asked, first.silent_since) == (0, None)
    second = parse_sample({}, first, LATER, asked)
    assert second == replace(first, taken_at=LATER, silent_since=LATER)
    third = parse_sample({"a": "cut off {"}, second, LATER + INTERVAL, asked)
    assert third == replace(second, taken_at=LATER + INTERVAL)
    last = parse_sample({"a": worker(0).text}, third, LATER + 2 * INTERVAL, asked)
    assert (last.silent_since, last.progressed_at) == (None, NOW)


def test_silence_from_the_start_is_told_with_its_beginning() -> None:
    asked = {"a": Asked("worker", 3), "b": Asked("pack", None)}
    first = parse_sample({}, None, NOW, asked)
    assert first == Sample(taken_at=NOW, asked=3, silent_since=NOW)
    second = parse_sample({}, first, LATER, asked)
    assert second == Sample(taken_at=LATER, asked=3, silent_since=NOW)


def test_the_silence_of_an_attempt_is_its_own() -> None:
    former = parse_sample({}, None, NOW, {"a": WORKER})
    asked = {"a": WORKER, "b": Asked("worker", 1)}
    assert parse_sample({}, former, LATER, asked).silent_since == LATER
    straggler = parse_sample({"a": worker(0, attempt=0).text}, former, LATER, asked)
    assert (straggler.attempt, straggler.asked, straggler.silent_since) == (0, 1, LATER)


def test_who_answers_with_nothing_that_is_known_here_is_silent() -> None:
    sample = parse_sample({"a": "other_program_steps 3\n"}, None, NOW, {"a": WORKER})
    assert (sample.attempt, sample.silent_since) == (None, NOW)


@pytest.mark.parametrize("attempt", ["", "-1", "first", "\N{SUPERSCRIPT TWO}", "9" * 5000])
def test_what_is_no_attempt_is_none(attempt: str) -> None:
    text = f'imagenet_train_epoch{{role="worker",attempt="{attempt}"}} 3\n'
    assert parse_sample({"a": text}, None, NOW) == Sample(taken_at=NOW)
    assert Asked.of_labels({labels.JOB_ROLE: "worker", labels.ATTEMPT: attempt}).attempt is None


def test_who_is_asked_is_told_by_its_labels() -> None:
    assert Asked.of_labels(labels.of_role("digits", 3, "worker", 1)) == Asked("worker", 3)
    assert Asked.of_labels(labels.of_child("digits", "pack")) == Asked("pack", None)
    assert Asked.of_labels({}) == Asked("", None)


def test_data_wait_is_the_share_since_the_last_sample() -> None:
    first = parse_sample({"a": worker(0).text}, None, NOW)
    waited = Exporter("worker", 0).histogram("imagenet_train_step_seconds", 1.0, 2.0, 4.0)
    waited.histogram("imagenet_train_data_wait_seconds", 0.25, 0.5, 3.0)
    assert data_wait(parse_sample({"a": waited.text}, first, LATER)) == 0.75
    assert parse_sample({"a": worker(0).text}, first, LATER).figures.get("data_wait_share") == 0.25


def test_data_wait_is_the_share_since_all_workers_last_answered() -> None:
    def waited(*data: float) -> str:
        exporter = Exporter("worker", 0).histogram(
            "imagenet_train_step_seconds", *[4.0] * len(data)
        )
        return exporter.histogram("imagenet_train_data_wait_seconds", *data).text

    first = parse_sample({"a": waited(1.0), "b": waited(1.0)}, None, NOW, BOTH)
    late = parse_sample({"b": waited(1.0, 4.0)}, first, LATER, BOTH)
    assert (data_wait(first), data_wait(late)) == (
        0.25,
        0.25,
    )
    texts = {"a": waited(1.0, 2.0), "b": waited(1.0, 4.0)}
    assert data_wait(parse_sample(texts, late, LATER + INTERVAL, BOTH)) == 0.75


def test_preparation_is_summed_by_role() -> None:
    def packer(images: int) -> Exporter:
        return (
            Exporter("pack")
            .counter(names.PREPARE_IMAGES, images)
            .gauge(names.PREPARE_PLANNED, 100)
            .counter(names.PREPARE_BYTES, images * 1000)
            .counter(names.PREPARE_SKIPPED, 1)
        )

    sample = parse_sample({"p0": packer(40).text, "p1": packer(60).text}, None, NOW)
    assert sample.attempt is None
    assert sample.progressed_at is None
    assert sample.preparation == {"pack": names.Preparation(100, 200, 100_000, 2)}


def test_a_value_that_is_not_a_number_is_nothing_said() -> None:
    first = Exporter("worker", 0).gauge(names.TRAIN_RANK, 0)
    first.gauge("imagenet_train_top1", float("nan")).gauge("imagenet_train_epoch", float("inf"))
    sample = parse_sample({"a": first.text}, None, NOW)
    assert (top1(sample), sample.epoch) == (None, None)


@pytest.mark.parametrize("speeds", [(-0.1,), (1e308, 1e308)])
def test_what_is_no_speed_is_nothing_said(speeds: tuple[float, ...]) -> None:
    workers = {
        f"worker-{number}": Exporter("worker", 0).gauge(SPEED, rate).text
        for number, rate in enumerate(speeds)
    }
    assert speed(parse_sample(workers, None, NOW)) is None


@pytest.mark.parametrize("epoch", [-1, 1e300])
def test_what_is_no_count_is_nothing_said(epoch: float) -> None:
    first = Exporter("worker", 0).gauge(names.TRAIN_RANK, 0).gauge("imagenet_train_epoch", epoch)
    assert parse_sample({"a": first.text}, None, NOW).epoch is None


def test_an_attempt_is_known_before_its_workers_have_a_plan() -> None:
    sample = parse_sample({"a": Exporter("scheduler", 3).gauge("up", 1).text}, None, NOW)
    assert (sample.attempt, sample.progressed_at) == (3, NOW)
    again = parse_sample({"a": Exporter("scheduler", 3).gauge("up", 1).text}, sample, LATER)
    assert again.progressed_at == NOW


def test_every_name_is_exported_by_the_workloads() -> None:
    exported = {metric.name: metric.kind for metric in workload_names.ALL}
    assert names.metrics()
    for name in names.metrics():
        base = name.removesuffix("_sum")
        assert base in exported
        assert (base != name) == (exported[base] is workload_names.MetricType.HISTOGRAM)
    assert {names.ROLE_LABEL, names.ATTEMPT_LABEL} <= set(workload_names.LABELS)


def test_nobody_heard() -> None:
    assert parse_sample({}, None, NOW) == Sample(taken_at=NOW)


@given(cut=st.integers(0, 2000), noise=st.text(max_size=40))
def test_a_text_that_is_cut_or_damaged_harms_no_other(cut: int, noise: str) -> None:
    texts = {"a": worker(1).text[:cut] + noise, "b": worker(0).text}
    assert top1(parse_sample(texts, None, NOW)) == 0.75

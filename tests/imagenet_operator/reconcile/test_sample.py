"""The sample: Prometheus texts as the members' client writes them, and what a job's figures are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.sample import LONGEST_CHECKPOINT, Asked, Preparation, Sample
from imagenet_spec import metrics
from imagenet_spec.resource.figures import FIGURES
from support.member_metrics import (
    BOTH,
    INTERVAL,
    LATER,
    NOW,
    SPEED,
    WORKER,
    Exporter,
    speed,
    worker,
)
from support.samples import parse_sample


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
    assert sample.rank0_pod == "digits-r0-worker-1"
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
    later = parse_sample(heard, whole, NOW + LONGEST_CHECKPOINT, BOTH)
    assert (speed(later), data_wait(later)) == (
        201,
        0.25,
    )
    sample = parse_sample(heard, later, later.taken_at + INTERVAL, BOTH)
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


@pytest.mark.parametrize(
    ("known", "expected"),
    [((0.5, 1.0), 0.75), ((None, 0.5), 0.5), ((None, None), None), ((0.5, 7.0), 1.0)],
)
def test_the_utilization_of_the_gpus_is_the_mean_of_the_workers_that_know_it(
    known: tuple[float | None, ...], expected: float | None
) -> None:
    texts = {}
    for rank, value in enumerate(known):
        exporter = worker(rank)
        if value is not None:
            exporter.gauge(metrics.TRAIN_GPU_UTILIZATION.name, value)
        texts[f"digits-r0-worker-{rank}"] = exporter.text
    sample = parse_sample(texts, None, NOW)
    number = next(item.number for item in FIGURES if item.field == "gpu_utilization")
    assert number.rounded(sample.figures.get("gpu_utilization")) == expected
    late = NOW + LONGEST_CHECKPOINT + INTERVAL
    asked = dict.fromkeys(texts, WORKER)
    silent = {"digits-r0-worker-0": worker(0).text}
    assert "gpu_utilization" not in parse_sample(silent, sample, late, asked).figures


def test_preparation_is_summed_by_role() -> None:
    def packer(images: int) -> Exporter:
        return (
            Exporter("pack")
            .counter(metrics.PREPARE_IMAGES.name, images)
            .gauge(metrics.PREPARE_IMAGES_PLANNED.name, 100)
            .counter(metrics.PREPARE_BYTES.name, images * 1000)
            .counter(metrics.PREPARE_SKIPPED_IMAGES.name, 1)
        )

    sample = parse_sample({"p0": packer(40).text, "p1": packer(60).text}, None, NOW)
    assert sample.attempt is None
    assert sample.progressed_at is None
    assert sample.preparation == {"pack": Preparation(100, 200, 100_000, 2)}


def test_a_value_that_is_not_a_number_is_nothing_said() -> None:
    first = Exporter("worker", 0).gauge(metrics.TRAIN_RANK.name, 0)
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
    first = (
        Exporter("worker", 0).gauge(metrics.TRAIN_RANK.name, 0).gauge("imagenet_train_epoch", epoch)
    )
    assert parse_sample({"a": first.text}, None, NOW).epoch is None


def test_an_attempt_is_known_before_its_workers_have_a_plan() -> None:
    sample = parse_sample({"a": Exporter("scheduler", 3).gauge("up", 1).text}, None, NOW)
    assert (sample.attempt, sample.progressed_at) == (3, NOW)
    again = parse_sample({"a": Exporter("scheduler", 3).gauge("up", 1).text}, sample, LATER)
    assert again.progressed_at == NOW


def test_nobody_heard() -> None:
    assert parse_sample({}, None, NOW) == Sample(taken_at=NOW)


@given(cut=st.integers(0, 2000), noise=st.text(max_size=40))
def test_a_text_that_is_cut_or_damaged_harms_no_other(cut: int, noise: str) -> None:
    texts = {"a": worker(1).text[:cut] + noise, "b": worker(0).text}
    assert top1(parse_sample(texts, None, NOW)) == 0.75

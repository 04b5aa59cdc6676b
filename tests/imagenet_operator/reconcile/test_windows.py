"""Windows of steps: what all workers did in at least 100 steps each."""

from __future__ import annotations

import pytest

from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.windows import Steps, StepWindow, advanced
from support.member_metrics import BOTH, INTERVAL, LATER, NOW, Exporter
from support.samples import parse_sample


def sums(
    steps: float, *, images: float = 0, seconds: float = 0, waited: float = 0
) -> dict[str, float]:
    return {
        "imagenet_train_images_total": images,
        "imagenet_train_step_seconds_count": steps,
        "imagenet_train_step_seconds_sum": seconds,
        "imagenet_train_data_wait_seconds_sum": waited,
    }


BEGIN = StepWindow(Steps(7, 14, 140, 90.0, 60.0))
LONG = StepWindow(Steps(107, 214, 2140, 290.0, 110.0), Steps(100, 200, 2000, 200.0, 50.0))


@pytest.mark.parametrize(
    ("former", "found", "position", "expected"),
    [
        pytest.param(None, sums(0), 0, None, id="before the first step"),
        pytest.param(
            None, sums(14, images=140, seconds=90, waited=60), 7, BEGIN, id="first steps left out"
        ),
        pytest.param(
            BEGIN, sums(212, images=2120, seconds=288, waited=110), 106, BEGIN, id="99 steps"
        ),
        pytest.param(
            BEGIN, sums(214, images=2140, seconds=290, waited=110), 107, LONG, id="100 steps"
        ),
        pytest.param(LONG, sums(216, images=2160, seconds=292, waited=111), 108, LONG, id="kept"),
        pytest.param(LONG, sums(900), None, LONG, id="rank 0 unknown"),
    ],
)
def test_a_window_ends_after_100_steps_of_each_process(
    former: StepWindow | None,
    found: dict[str, float],
    position: int | None,
    expected: StepWindow | None,
) -> None:
    assert advanced(former, found, position) == expected


def test_a_window_has_what_was_waited_for() -> None:
    more = {
        "imagenet_train_read_wait_seconds_total": 1.0,
        "imagenet_train_decode_wait_seconds_total": 2.0,
        "imagenet_train_decoders_seconds_total": 3.0,
        "imagenet_train_decoders_cpu_seconds_total": 4.0,
        "imagenet_train_throttled_seconds_total": 5.0,
        "imagenet_train_launched_steps_total": 6.0,
        "imagenet_train_starved_steps_total": 7.0,
    }
    begin = advanced(None, sums(14), 7)
    found = advanced(begin, sums(214, images=2000, seconds=200, waited=50) | more, 107)
    assert found is not None
    assert found.last == Steps(100, 200, 2000, 200.0, 50.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)


def test_processes_take_their_steps_at_the_same_time() -> None:
    assert Steps(100, 400, 6400, 200.0, 50.0).seconds_of_each == 50.0


def texts(steps: int) -> dict[str, str]:
    """What two workers say after so many steps of 2 s and 10 images, with waits of 0.5 s."""

    def one(rank: int) -> str:
        exporter = Exporter("worker", 0).gauge("imagenet_train_rank", rank)
        exporter.gauge("imagenet_train_epoch", steps // 60).gauge("imagenet_train_epochs", 10)
        exporter.gauge("imagenet_train_batch", steps % 60)
        exporter.gauge("imagenet_train_batches_per_epoch", 60)
        exporter.counter("imagenet_train_images_total", 10 * steps)
        exporter.histogram("imagenet_train_step_seconds", *[2.0] * steps)
        return exporter.histogram("imagenet_train_data_wait_seconds", *[0.5] * steps).text

    return {"a": one(0), "b": one(1)}


def test_a_sample_has_the_window_of_all_workers() -> None:
    first = parse_sample(texts(20), None, NOW, BOTH)
    assert first.steps is not None
    assert first.steps.last is None
    missing = parse_sample({"a": texts(130)["a"]}, first, LATER, BOTH)
    assert missing.steps == first.steps
    whole: Sample = parse_sample(texts(140), missing, LATER + INTERVAL, BOTH)
    assert whole.steps is not None
    assert whole.steps.last == Steps(120, 240, 2400, 480.0, 120.0)

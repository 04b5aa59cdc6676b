"""Which points of a job's events count, and which may be sent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.events import (
    CheckpointWritten,
    EpochFinished,
    Event,
    Finished,
    Progress,
    Started,
    Validated,
)
from imagenet_workloads.tracking.history import History, to_send
from support.sentences import assert_says

IMAGES, BATCHES = 100, 10


def started(attempt: int, epoch: int = 0, batch: int = 0, **further: object) -> Started:
    resumed = "epoch" if epoch or batch else None
    return Started(attempt, 2, epoch, batch, resumed, BATCHES, "t", IMAGES, **further)  # type: ignore[arg-type]


def progress(epoch: int, batch: int, loss: float = 1.0, speed: float = 5.0) -> Progress:
    return Progress(epoch, batch, speed, loss, 0.5, 0.9, 0.1)


def history(*events: Event) -> History:
    """Return the history of events that are a second apart."""
    found = History()
    for time, event in enumerate(events):
        found.add(float(time), event)
    return found


def steps(found: History, series: str = "train/loss") -> list[int]:
    return [point.step for point in found.points if point.series == series]


def test_steps_are_images_of_all_workers() -> None:
    found = history(started(0), progress(0, 5), progress(0, 10), progress(1, 5), Validated(0, 9, 1))
    assert steps(found) == [50, 100, 150]
    assert steps(found, "validation/top1") == [100]


def test_another_batch_size_leaves_the_steps() -> None:
    larger = Started(1, 2, 1, 0, "epoch", BATCHES // 2, "t", IMAGES)
    found = history(started(0), progress(0, 10), CheckpointWritten(1, 0, "c", 1), larger)
    found.add(9.0, progress(1, 2))
    assert steps(found) == [100, 140]


def test_every_series_has_its_figures() -> None:
    found = history(started(0), progress(0, 5), Validated(0, 9, 0.25, 0.75, 1.5))
    assert {point.series: point.value for point in found.points} == {
        "train/loss": 1.0,
        "train/top1": 0.5,
        "train/top5": 0.9,
        "learning_rate": 0.1,
        # Two workers, each with 5 images a second.
        "images_per_second": 10.0,
        # 50 images at this speed take 5 s, but only one has passed.
        "goodput": 1.0,
        "restarts": 0.0,
        "validation/loss": 1.5,
        "validation/top1": 0.25,
        "validation/top5": 0.75,
    }


def test_goodput_has_no_part_of_lost_steps() -> None:
    found = History()
    found.add(0.0, started(0))
    # 10 images a second: a second for each batch.
    found.add(10.0, progress(0, 10))
    found.add(10.0, CheckpointWritten(1, 0, "c", 1))
    found.add(15.0, progress(1, 5))
    found.add(25.0, started(1, 1))
    found.add(35.0, progress(1, 10))
    assert found.points[-2].series == "goodput"
    assert found.points[-2].value == pytest.approx(20 / 35)


@pytest.mark.parametrize(
    ("events", "covered"),
    [
        ([started(0), progress(0, 5)], 0),
        ([started(0), progress(0, 5), CheckpointWritten(0, 4, "c", 1)], 40),
        ([started(0), progress(0, 10), CheckpointWritten(1, 0, "c", 1), progress(1, 3)], 100),
        # The line of the checkpoint was lost: what is resumed from counts.
        ([started(0), progress(0, 5), started(1, 0, 4)], 40),
        # A newer checkpoint was damaged: an older one is resumed from.
        ([started(0), progress(0, 9), CheckpointWritten(0, 9, "c", 1), started(1, 0, 4)], 40),
        ([started(0), progress(0, 5), Finished(1)], math.inf),
        ([started(0), progress(0, 5), EpochFinished(0, 1, 1)], 0),
    ],
)
def test_a_checkpoint_or_the_end_covers_points(events: list[Event], covered: float) -> None:
    assert history(*events).covered == covered


def test_a_restart_drops_the_steps_that_are_lost_and_is_a_mark() -> None:
    events = (started(0), progress(0, 3), CheckpointWritten(0, 4, "c", 1), progress(0, 6))
    found = history(*events, started(1, 0, 4), progress(0, 5, 2.0))
    assert steps(found) == [30, 50]
    (restart,) = found.restarts
    assert (restart.number, restart.step) == (1, 40)
    assert_says(restart.text, "attempt 1 resumes", "epoch 1 batch 4", "2 workers")
    assert {p.value for p in found.points if p.series == "restarts" and p.step > 40} == {1.0}


def test_a_validation_after_its_checkpoint_is_covered_too() -> None:
    found = history(started(0), CheckpointWritten(1, 0, "c", 1), Validated(0, 9, 0.5))
    assert [point.step for point in to_send(found, {})] == [100]


def test_what_is_acknowledged_is_never_sent_again() -> None:
    found = history(started(0), progress(0, 5), progress(0, 8), CheckpointWritten(0, 8, "c", 1))
    acknowledged = {"train/loss": 50}
    assert [p.step for p in to_send(found, acknowledged) if p.series == "train/loss"] == [80]
    # An older checkpoint is resumed from, and what was sent is trained again.
    again: list[Event] = [started(1, 0, 2), progress(0, 8, 3.0), progress(0, 9)]
    for time, event in enumerate(again, 10):
        found.add(float(time), event)
    found.add(20.0, Finished(1))
    sent = [p.step for p in to_send(found, {"train/loss": 80}) if p.series == "train/loss"]
    assert sent == [90]


def test_a_log_of_an_older_release_has_batches_as_steps() -> None:
    found = History()
    found.add(0.0, Started(0, 1, 0, 0, None, BATCHES))
    found.add(1.0, progress(1, 5))
    assert steps(found) == [15]
    assert steps(found, "goodput") == []


def test_the_first_attempt_has_the_parameters() -> None:
    first = started(0, dataset_key="key", parameters={"lr": "0.1"})
    found = history(first, started(1, parameters={"lr": "0.2"}))
    assert found.parameters == {"lr": "0.1", "dataset_key": "key"}


@dataclass(frozen=True)
class Attempt:
    """What an attempt does until it is killed: batches, and whether each is followed by a save."""

    saves: list[bool]


ATTEMPTS = st.lists(st.builds(Attempt, st.lists(st.booleans(), max_size=25)), max_size=6)
LENGTH = 3 * BATCHES


@given(killed=ATTEMPTS, flushes=st.sets(st.integers(0, 400)))
def test_random_kills_and_resumes_give_each_step_once(
    killed: list[Attempt], flushes: set[int]
) -> None:
    """A server that takes nothing back ends with one value a step: that of the trained model.

    Each batch is reported; its loss is unique, so a value of a lost step would be seen. After the
    kills an attempt trains to the end. `flushes` are the events after which is sent.
    """
    found, number, resume = History(), 0, 0
    server: list[tuple[str, int, float]] = []
    acknowledged: dict[str, int] = {}
    model: dict[int, float] = {}

    def take(event: Event) -> None:
        nonlocal number
        found.add(float(number), event)
        number += 1
        if number in flushes:
            send()

    def send() -> None:
        for point in to_send(found, acknowledged):
            server.append((point.series, point.step, point.value))
            acknowledged[point.series] = point.step

    for index, attempt in enumerate([*killed, Attempt([False] * LENGTH)]):
        take(started(index, *divmod(resume, BATCHES)))
        model = {step: loss for step, loss in model.items() if step <= resume * 10}
        place = resume
        for is_saved in attempt.saves[: LENGTH - place]:
            place += 1
            # The last batch of an epoch belongs to it.
            epoch, batch = divmod(place - 1, BATCHES)
            loss = 1.0 + number
            take(progress(epoch, batch + 1, loss))
            model[place * 10] = loss
            if is_saved:
                take(CheckpointWritten(*divmod(place, BATCHES), "c", 1.0))
                resume = place
    take(Finished(3))
    send()

    losses = [(step, value) for series, step, value in server if series == "train/loss"]
    assert losses == sorted(model.items())
    assert len(losses) == LENGTH
    for name in {series for series, _, _ in server}:
        of_series = [step for series, step, _ in server if series == name]
        assert of_series == sorted(set(of_series))

"""Epochs over all attempts, and what they cost."""

import pytest

from imagenet_spec.curves import (
    IDLE_PHASES,
    WAITING_PHASES,
    Account,
    Curve,
    Epoch,
    EpochCollector,
    Interval,
    all_epochs,
    common_accuracy,
    curve,
    intervals,
)
from imagenet_spec.events import (
    CheckpointWritten,
    EpochFinished,
    Event,
    Finished,
    Progress,
    Run,
    Started,
    Validated,
)
from imagenet_spec.resource.time_status import PHASES

START = 1000.0
TOP1 = (0.2, 0.4, 0.6, 0.8)


def run(
    attempt: int,
    at: float,
    first: int,
    last: int,
    *,
    unfinished: int = 0,
    workers: int = 1,
) -> Run:
    """A run from `at` on that finishes epochs of 10 s, 10 batches and 100 images.

    It ends in the midst of the next epoch, with so many batches of it.
    """
    found = Run((at, Started(attempt, workers, first, 0, batches_per_epoch=10)), at)
    for epoch in range(first, last):
        at += 8
        found.add(at, Progress(epoch, 10, 12.5, learning_rate=0.1 / (epoch + 1)))
        found.add(at, EpochFinished(epoch, 8.0, 12.5, loss=2.0 / (epoch + 1), top1=TOP1[epoch]))
        at += 2
        found.add(at, Validated(epoch, 20, TOP1[epoch] - 0.1, loss=3.0))
    if unfinished:
        found.add(at + unfinished, Progress(last, unfinished, 12.5))
    return found


def test_an_epoch_has_what_its_events_say() -> None:
    first, second = all_epochs([run(0, START, 0, 2)])
    assert first == Epoch(
        attempt=0,
        number=1,
        time=START + 10,
        loss=2.0,
        top1=0.2,
        learning_rate=0.1,
        images=100,
        images_per_second=12.5,
        validation=Validated(0, 20, TOP1[0] - 0.1, loss=3.0),
    )
    assert (second.number, second.loss, second.learning_rate) == (2, 1.0, 0.05)


def test_an_epoch_that_is_trained_again_is_there_twice() -> None:
    found = all_epochs([run(0, START, 0, 3), run(1, START + 60, 1, 4)])
    assert [(epoch.attempt, epoch.number, epoch.is_kept) for epoch in found] == [
        *((0, 1, True), (0, 2, False), (0, 3, False)),
        *((1, 2, True), (1, 3, True), (1, 4, True)),
    ]


def test_the_means_over_display_intervals() -> None:
    """The log has the means since the epoch's beginning, or since the resume within it."""
    found = Run((START, Started(0, 2, 3, 4, batches_per_epoch=10)), START)
    for epoch, batch, loss, top1 in ((3, 6, 4.0, 0.5), (3, 10, 2.0, 0.5), (4, 5, 1.0, None)):
        found.add(START, Progress(epoch, batch, 10.0, loss=loss, top1=top1, learning_rate=0.1))
    assert intervals(found) == [
        Interval(3.6, 4.0, 0.5, 0.1, 20.0),
        Interval(4.0, 1.0, 0.5, 0.1, 20.0),
        Interval(4.5, 1.0, None, 0.1, 20.0),
    ]


EPOCH = EpochFinished(0, 8.0, 12.5, loss=2.0)
SAVED = CheckpointWritten(1, 0, "epoch-0001-batch-00000000", 0.1)


@pytest.mark.parametrize(
    ("events", "complete"),
    [
        ((EPOCH, SAVED, Validated(0, 20, 0.5)), [[], [], [1]]),
        ((EPOCH, SAVED), [[], []]),
        ((EPOCH, Progress(1, 1, 9.0)), [[], [1]]),
        ((EPOCH, Finished(1)), [[], [1]]),
        ((EPOCH, Started(1, 1, 1, 0)), [[], [1]]),
        # The attempt ended before the validation, and the next one begins with it.
        ((Started(1, 1, 1, 0), Validated(0, 20, 0.5)), [[], [1]]),
    ],
)
def test_an_epoch_is_complete_with_its_validation_or_the_next_event(
    events: tuple[Event, ...], complete: list[list[int]]
) -> None:
    collector = EpochCollector()
    found = [[epoch.number for epoch in collector.add(START, event)] for event in events]
    assert found == complete
    assert len(collector.end()) == (complete[-1] == [] and EPOCH in events)


ACCOUNT = Account(
    begin=START - 100,
    end=START + 100,
    phases={"preparing": 70.0, "queueing": 20.0, "pulling": 4.0, "starting": 6.0}
    | {"stepping": 80.0, "restarting": 15.0, "unreported": 5.0},
    gpu_hours=8.0,
)


def test_the_phases_are_those_of_a_status() -> None:
    assert {*WAITING_PHASES, *IDLE_PHASES} <= set(PHASES)


def costs(found: Curve) -> list[tuple[int, int, float]]:
    return [(item.epoch.number, item.images, round(item.seconds, 1)) for item in found.points]


def test_the_costs_of_a_training_in_one_attempt() -> None:
    found = curve([run(0, START, 0, 4)])
    assert costs(found) == [(1, 100, 10.0), (2, 200, 20.0), (3, 300, 30.0), (4, 400, 40.0)]
    assert (found.images, found.lost_images, found.seconds) == (400, 0, 40.0)
    assert found.gpu_hours is None


def test_lost_steps_and_restarts_are_costs_of_later_epochs() -> None:
    # 20 s of epochs and 5 s of an unfinished one, then 15 s without a worker.
    runs = [run(0, START, 0, 2, unfinished=5), run(1, START + 40, 1, 4)]
    found = curve(runs)
    assert costs(found) == [(1, 100, 10.0), (2, 350, 50.0), (3, 450, 60.0), (4, 550, 70.0)]
    assert (found.images, found.lost_images) == (550, 150)


def test_an_epoch_that_ends_with_its_run_is_counted() -> None:
    """A run that is told to leave in the last step of an epoch does not report the epoch."""
    first = run(0, START, 0, 1, unfinished=10)
    assert curve([first, run(1, START + 40, 2, 3)]).images == 300


def test_what_the_next_attempt_resumes_from_was_trained() -> None:
    """Steps after the last line of a log may be in a checkpoint."""
    first, second = run(0, START, 0, 1), run(1, START + 20, 1, 2)
    second.start = second.start[0], Started(1, 1, 1, 5, batches_per_epoch=10)
    assert curve([first, second]).images == 250


@pytest.mark.parametrize(("is_validated", "seconds"), [(False, 42.0), (True, 20.0)])
def test_an_epoch_that_the_next_attempt_validates_is_one_point(
    is_validated: bool, seconds: float
) -> None:
    first, second = run(0, START, 0, 2), run(1, START + 40, 2, 2)
    if not is_validated:
        del first.validations[-1]
    second.add(START + 42, Validated(1, 20, 0.7, loss=1.0))
    found = curve([first, second])
    assert costs(found) == [(1, 100, 10.0), (2, 200, seconds)]
    epoch = found.points[-1].epoch
    assert (epoch.attempt, epoch.loss, epoch.images) == (0, 1.0, 100)
    assert epoch.validation == (
        first.validations[-1][1] if is_validated else Validated(1, 20, 0.7, loss=1.0)
    )
    assert len(all_epochs([first, second])) == 3


def test_the_account_has_the_time_between_the_runs() -> None:
    runs = [run(0, START, 0, 2), run(1, START + 40, 2, 4)]
    phases = {"preparing": 70.0, "pulling": 10.0, "starting": 20.0, "stepping": 60.0}
    account = Account(START - 100, START + 80, phases | {"restarting": 20.0}, 2.0)
    found = curve(runs, account)
    # 30 s before the first run, and 20 s between both.
    assert costs(found) == [(1, 100, 40.0), (2, 200, 50.0), (3, 300, 80.0), (4, 400, 90.0)]
    assert found.seconds == account.seconds == 110.0
    # 90 s with GPUs. The back-off of 20 s holds none.
    assert account.held_seconds == 90.0
    spent = [point.gpu_hours for point in found.points]
    assert spent == sorted(spent, key=lambda hours: hours or 0.0)
    assert found.gpu_hours == 2.0


def test_waits_are_no_part_of_the_time() -> None:
    """A job that was suspended for a day, between two runs: its other gaps are as they are."""
    day = 86400.0
    first, second = run(0, START, 0, 1), run(1, START + 15, 1, 2)
    third = run(2, START + 25 + day, 2, 3)
    phases = {"starting": 10.0, "stepping": 30.0, "restarting": 5.0, "suspended": day - 10}
    account = Account(START - 5, third.end, phases, 0.0)
    found = curve([first, second, third], account)
    assert costs(found) == [(1, 100, 15.0), (2, 200, 30.0), (3, 300, 45.0)]


def test_gpu_hours_follow_the_workers() -> None:
    runs = [run(0, START, 0, 1, workers=1), run(1, START + 10, 1, 2, workers=3)]
    account = Account(START, START + 20, {"stepping": 20.0}, 4.0)
    assert [point.gpu_hours for point in curve(runs, account).points] == [1.0, 4.0]


def test_a_running_job_may_be_ahead_of_its_account() -> None:
    account = Account(START, START + 10, {"stepping": 10.0}, 1.0)
    assert curve([run(0, START, 0, 2)], account).seconds == 20.0


def test_a_job_that_has_not_trained_has_the_costs_of_its_account() -> None:
    found = curve([], ACCOUNT)
    assert (found.points, found.seconds, found.gpu_hours) == ((), 110.0, 8.0)


@pytest.mark.parametrize(("top1", "number"), [(0.1, 1), (0.3, 2), (0.31, 3), (0.9, None)])
def test_the_first_epoch_that_reaches_an_accuracy(top1: float, number: int | None) -> None:
    found = curve([run(0, START, 0, 4)]).reached(top1)
    assert (found and found.epoch.number) == number


def test_the_accuracy_that_all_reached() -> None:
    worse, better = curve([run(0, START, 0, 3)]), curve([run(0, START, 0, 4)])
    assert common_accuracy([better, worse]) == 0.5
    assert all(found.reached(0.5) for found in (better, worse))
    assert common_accuracy([better, curve([])]) is None
    assert common_accuracy([]) is None
    assert better.best is not None
    assert better.best.epoch.number == 4

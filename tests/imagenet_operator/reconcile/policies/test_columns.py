"""Epochs and remaining time in words, and how often they are written."""

from __future__ import annotations

from datetime import timedelta

import pytest

from imagenet_operator.api.status import Status, TrainingStatus
from imagenet_operator.reconcile.policies import job_status
from support.attempt_members import NOW, later
from support.samples import sample


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, None),
        (0, "<1m"),
        (59, "<1m"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h00m"),
        (7850, "2h10m"),
        (10 * 3600, "10h"),
        (2 * 86400, "2d0h"),
        (3 * 86400 + 4 * 3600 + 7, "3d4h"),
        (12 * 86400 + 5, "12d"),
    ],
)
def test_a_remaining_time_is_rounded_for_people(seconds: int | None, words: str | None) -> None:
    assert job_status.eta(seconds) == words


@pytest.mark.parametrize(
    ("epoch", "epochs", "words"), [(3, 10, "3/10"), (None, 10, "2/10"), (3, None, "2/10")]
)
def test_epochs_are_those_that_are_finished(
    epoch: int | None, epochs: int | None, words: str
) -> None:
    training = TrainingStatus(epoch=epoch, finished_epochs="2/10")
    assert job_status.finished_epochs(training, epochs) == words


def test_a_minute_of_samples_costs_one_write() -> None:
    """Epochs of five seconds, and a sample every five seconds: the speed is steady."""
    stored, writes = TrainingStatus(), []
    for number in range(61):
        heard = sample(
            later(5 * number),
            attempt=0,
            epoch=number,
            epochs=100,
            batch=0,
            batches_per_epoch=10,
            images_per_second=200.0,
            progressed_at=later(5 * number),
        )
        new = job_status.with_sample(stored, heard, global_batch_size=100)
        if job_status.is_worth_a_write(Status(training=stored), Status(training=new)):
            stored = new
            writes.append(5 * number)
    assert writes == [0, 60, 120, 180, 240, 300]
    assert (stored.finished_epochs, stored.eta) == ("60/100", "3m")


def test_another_write_takes_the_columns_along() -> None:
    old = TrainingStatus(finished_epochs="1/9", images_per_second=100, last_progress_time=NOW)
    heard = sample(
        later(5), attempt=0, epoch=2, epochs=9, images_per_second=200.0, progressed_at=later(5)
    )
    new = job_status.with_sample(old, heard, global_batch_size=100)
    assert job_status.is_worth_a_write(Status(training=old), Status(training=new))
    assert new.finished_epochs == "2/9"


def test_an_attempt_that_has_ended_has_no_remaining_time() -> None:
    ended = job_status.stilled(TrainingStatus(epoch=3, finished_epochs="3/10", eta="2h10m"))
    assert (ended.finished_epochs, ended.eta) == ("3/10", None)


def test_the_interval_is_a_minute() -> None:
    assert timedelta(seconds=60) == job_status.WRITE_INTERVAL

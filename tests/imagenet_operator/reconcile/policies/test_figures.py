"""Figures of a sample in the status, and when a status is worth a write."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.reconcile.policies import job_status
from imagenet_operator.reconcile.policies.job_status import is_worth_a_write
from imagenet_operator.reconcile.sample import Asked, Sample
from imagenet_spec.names import MemberRole
from imagenet_spec.resource.figures import Accuracy
from imagenet_spec.resource.status import MemberStatus, Status, TrainingStatus
from support.attempt_members import NOW, later
from support.samples import parse_sample, sample

FORMER = TrainingStatus(
    attempt=1,
    epoch=2,
    images_per_second=100.0,
    accuracy=Accuracy(train=0.5, validation=0.4),
    estimated_remaining_seconds=60,
    last_progress_time=later(-60),
)


def test_a_sample_is_carried_over() -> None:
    heard = sample(
        taken_at=NOW,
        attempt=1,
        epoch=3,
        epochs=10,
        batch=5,
        batches_per_epoch=10,
        images_per_second=200.04321,
        accuracy=0.9333333333333333,
        data_wait_share=0.0625123,
        validation_accuracy=1.5,
        progressed_at=later(-1),
    )
    found = job_status.with_sample(FORMER, heard, global_batch_size=100)
    assert (found.epoch, found.images_per_second) == (3, 200.0)
    assert found.accuracy == Accuracy(train=0.9333, validation=1.0)
    assert found.data_wait_share == 0.0625
    assert found.estimated_remaining_seconds == 32
    assert found.last_progress_time == later(-1)


def test_members_that_are_silent_from_the_start_change_nothing() -> None:
    silent = Sample(taken_at=NOW, asked=1, silent_since=later(-60))
    assert job_status.with_sample(FORMER, silent, global_batch_size=100) == FORMER


def test_what_is_not_heard_keeps_its_last_value_unless_it_is_of_now() -> None:
    found = job_status.with_sample(FORMER, Sample(taken_at=NOW, attempt=1), global_batch_size=100)
    assert (found.epoch, found.accuracy) == (2, FORMER.accuracy)
    assert (found.images_per_second, found.estimated_remaining_seconds) == (None, None)


@pytest.mark.parametrize("late", ["a", "b"])
def test_a_worker_that_is_late_costs_no_write(late: str) -> None:
    """From the texts to the status: a look at some of the workers says what the last whole did."""

    def text(rank: int) -> str:
        said = {"rank": rank, "images_per_second": 100, "epoch": 3, "batch": 5}
        said |= {"epochs": 10, "batches_per_epoch": 10}
        marks = 'role="worker",attempt="1"'
        return "".join(f"imagenet_train_{key}{{{marks}}} {value}\n" for key, value in said.items())

    asked = {"a": Asked("worker", 1), "b": Asked("worker", 1)}
    texts = {"a": text(0), "b": text(1)}
    whole = parse_sample(texts, None, NOW, asked)
    part = parse_sample({pod: texts[pod] for pod in texts if pod != late}, whole, later(15), asked)
    before, after = (
        job_status.with_sample(FORMER, item, global_batch_size=100) for item in (whole, part)
    )
    assert (before.images_per_second, before.estimated_remaining_seconds) == (200.0, 32)
    assert after == before
    assert not is_worth_a_write(Status(training=before), Status(training=after))


@pytest.mark.parametrize("heard", [None, sample(NOW, attempt=0, epoch=9)])
def test_another_attempt_says_nothing(heard: Sample | None) -> None:
    assert job_status.with_sample(FORMER, heard, global_batch_size=100) == FORMER


def test_an_attempt_that_has_ended_has_no_speed() -> None:
    found = job_status.stilled(FORMER.model_copy(update={"data_wait_share": 0.5}))
    assert found.data_wait_share is None
    assert (found.images_per_second, found.estimated_remaining_seconds) == (None, None)
    assert found.accuracy == FORMER.accuracy


WORDS = """{"time": 1.5, "event": "finished", "epochs": 5, "top1": 0.96111, "top5": 1.0,
"imagesPerSecond": 812.345}"""


def member(name: str, message: str | None, role: MemberRole = "worker") -> MemberStatus:
    return MemberStatus(name=name, role=role, phase="Succeeded", message=message)


def test_the_termination_message_of_rank_0_is_the_result() -> None:
    attempt = (member("s", WORDS, "server"), member("w0", None), member("w1", WORDS))
    found = job_status.with_result(
        FORMER.model_copy(update={"members": attempt, "unsaved_seconds": 3.0})
    )
    assert found.unsaved_seconds is None
    assert (found.epoch, found.accuracy) == (4, Accuracy(train=0.5, validation=0.9611))
    assert found.finished_epochs == "5/5"
    assert found.images_per_second == 812.3
    assert found.rank0_pod == "w1"


@pytest.mark.parametrize(("expects_result", "expected"), [(True, 5), (False, 2)])
def test_imagenet_train_leaves_a_checkpoint_of_the_last_epoch(
    expects_result: bool, expected: int
) -> None:
    """No sample has it; a program of the user's own may have another place for its state."""
    former = FORMER.model_copy(update={"checkpoint_epoch": 2, "expects_result": expects_result})
    attempt = (member("w0", '{"epochs": 5}'),)
    found = job_status.with_result(former.model_copy(update={"members": attempt}))
    assert found.checkpoint_epoch == expected


def test_a_result_without_a_speed_has_none() -> None:
    former = job_status.stilled(FORMER)
    attempt = (member("w0", '{"epochs": 5}'),)
    found = job_status.with_result(former.model_copy(update={"members": attempt}))
    assert (found.epoch, found.images_per_second) == (4, None)


def test_the_speed_of_reading_is_that_of_all_processes() -> None:
    def read(speed: float) -> str:
        return f'{{"event": "read", "images": 60, "workers": 4, "imagesPerSecond": {speed}}}'

    # Two workers with two slots each; a slot in each leaves its message.
    attempt = (member("w0", read(100.0)), member("w1", read(300.0)))
    found = job_status.with_result(
        job_status.stilled(FORMER).model_copy(update={"members": attempt})
    )
    assert (found.epoch, found.images_per_second) == (2, 800.0)


@pytest.mark.parametrize(
    ("words", "epoch", "validation"),
    [
        (None, 2, 0.4),
        ("Killed", 2, 0.4),
        ("{}", 2, 0.4),
        ('{"epochs": -1}', 2, 0.4),
        ('{"epochs": 5, "imagesPerSecond": -1}', 2, 0.4),
        ('{"epochs": 5, "imagesPerSecond": 1e999}', 2, 0.4),
        ('{"epochs": 5, "top1": null, "top5": null}', 4, 0.4),
        ('{"epochs": 0, "top1": 0.1}', 0, 0.1),
    ],
)
def test_another_termination_message_leaves_the_last_sample(
    words: str | None, epoch: int, validation: float
) -> None:
    attempt = (member("w0", words),)
    found = job_status.with_result(FORMER.model_copy(update={"members": attempt}))
    assert (found.epoch, found.accuracy) == (epoch, Accuracy(train=0.5, validation=validation))


@pytest.mark.parametrize(
    ("changes", "matters"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"images_per_second": 119.0}, False, id="a little faster"),
        pytest.param({"images_per_second": 121.0}, True, id="faster"),
        pytest.param({"images_per_second": 79.0}, True, id="slower"),
        pytest.param({"images_per_second": None}, True, id="not heard"),
        pytest.param({"estimated_remaining_seconds": 1}, False, id="time passes"),
        pytest.param({"last_progress_time": NOW}, False, id="progress alone"),
        pytest.param(
            {"accuracy": Accuracy(train=0.505, validation=0.4)}, False, id="hardly better"
        ),
        pytest.param({"accuracy": Accuracy(train=0.51, validation=0.4)}, True, id="better"),
        pytest.param({"accuracy": Accuracy(train=0.5)}, True, id="an accuracy less"),
        pytest.param({"accuracy": None}, True, id="no accuracy"),
        pytest.param({"epoch": 3, "finished_epochs": "3/10"}, True, id="the next epoch"),
        pytest.param(
            {"finished_epochs": "3/10", "last_progress_time": later(-1)}, False, id="the next soon"
        ),
        pytest.param({"eta": "2h10m", "last_progress_time": NOW}, True, id="a minute later"),
    ],
)
def test_what_is_worth_a_write(changes: dict[str, Any], matters: bool) -> None:
    old = Status(training=FORMER)
    new = Status(training=FORMER.model_copy(update={"last_progress_time": NOW, **changes}))
    assert is_worth_a_write(old, new) is matters


def test_that_an_attempt_was_heard_is_worth_a_write() -> None:
    """An operator that comes back learns from it that silence means something."""
    old = Status(training=TrainingStatus())
    new = Status(training=TrainingStatus(last_progress_time=NOW))
    assert is_worth_a_write(old, new)


def test_everything_outside_the_figures_is_worth_a_write() -> None:
    assert is_worth_a_write(Status(), Status(restarts=1))
    assert is_worth_a_write(Status(), Status(training=FORMER))
    assert not is_worth_a_write(Status(), Status())


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 3400),
        ({"epoch": 9, "batch": 20}, 0),
        ({"epoch": 11}, 0),
        ({"batch": None}, 3600),
        ({"images_per_second": 0.0}, None),
        ({"images_per_second": None}, None),
        ({"images_per_second": 5e-324}, None),
        ({"epoch": None}, None),
        ({"epochs": None}, None),
        ({"batches_per_epoch": 0}, None),
    ],
)
def test_the_estimate_is_what_is_left_at_the_speed_of_now(
    fields: dict[str, Any], seconds: int | None
) -> None:
    known = {"epoch": 1, "epochs": 10, "batch": 10, "batches_per_epoch": 20}
    heard = sample(NOW, **{**known, "images_per_second": 5.0, **fields})
    assert job_status.remaining_seconds(heard, global_batch_size=100) == seconds

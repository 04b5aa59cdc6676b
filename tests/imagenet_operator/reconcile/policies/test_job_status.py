"""What users see of a job: conditions, phase, epochs, remaining time, the newest checkpoint."""

from __future__ import annotations

from datetime import timedelta

import pytest

from imagenet_operator.reconcile.policies import job_status
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Clock, Condition, ConditionType, Status, TrainingStatus
from support.attempt_members import NOW, later
from support.job_table import manifest
from support.samples import sample


def test_a_new_condition_comes_last() -> None:
    first = job_status.put((), "Created", True, "JobAccepted", "", now=NOW, generation=1)
    both = job_status.put(first, "Running", False, "Starting", "wait", now=NOW, generation=2)
    assert [item.type for item in both] == ["Created", "Running"]
    assert (both[1].status, both[1].observed_generation) == ("False", 2)
    assert job_status.holds(both, "Created")
    assert not job_status.holds(both, "Running")
    assert not job_status.holds(both, "Failed")


def test_time_moves_only_with_the_status() -> None:
    one = job_status.put((), "Running", False, "Starting", "", now=NOW, generation=1)
    two = job_status.put(one, "Running", False, "Scheduling", "", now=later(5), generation=1)
    three = job_status.put(two, "Running", True, "Running", "", now=later(9), generation=1)
    assert [item[0].last_transition_time for item in (one, two, three)] == [NOW, NOW, later(9)]
    assert [item[0].reason for item in (one, two, three)] == ["Starting", "Scheduling", "Running"]


def test_saying_the_same_again_changes_nothing() -> None:
    one = job_status.put((), "Failed", True, "Why", "x" * 9000, now=NOW, generation=1)
    again = job_status.put(one, "Failed", True, "Why", "x" * 9000, now=later(5), generation=7)
    assert again == one


def test_a_long_message_is_cut() -> None:
    (one,) = job_status.put((), "Failed", True, "Why", "x" * 9000, now=NOW, generation=1)
    assert len(one.message) == job_status.MESSAGE_MAXIMUM
    assert one.message.endswith("…")


@pytest.mark.parametrize(
    ("true", "expected"),
    [
        ([], "Created"),
        (["DatasetReady"], "Starting"),
        (["DatasetReady", "Running"], "Running"),
        (["DatasetReady", "Restarting"], "Restarting"),
        (["DatasetReady", "Restarting", "Suspended"], "Suspended"),
        (["DatasetReady", "Restarting", "Failed"], "Failed"),
        (["Suspended"], "Suspended"),
        (["DatasetReady", "Succeeded"], "Succeeded"),
    ],
)
def test_the_first_condition_that_holds_says_it(true: list[ConditionType], expected: str) -> None:
    found = job_status.put((), "Running", False, "No", "", now=NOW, generation=1)
    for kind in true:
        found = job_status.put(found, kind, True, "Yes", "", now=NOW, generation=1)
    assert job_status.phase(Status(conditions=found), suspends=False) == expected


@pytest.mark.parametrize(
    ("true", "expected"),
    [
        ([], "Suspending"),
        (["DatasetReady", "Running"], "Suspending"),
        (["DatasetReady", "Restarting"], "Suspending"),
        (["DatasetReady", "Suspended"], "Suspended"),
        (["DatasetReady", "Succeeded"], "Succeeded"),
    ],
)
def test_a_job_with_pods_is_suspending(true: list[ConditionType], expected: str) -> None:
    found = job_status.put((), "Created", True, "JobAccepted", "", now=NOW, generation=1)
    for kind in true:
        found = job_status.put(found, kind, True, "Yes", "", now=NOW, generation=1)
    assert job_status.phase(Status(conditions=found), suspends=True) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"Created": (False, "ClaimNotFound")}, "ClaimNotFound"),
        ({"Created": (True, "JobAccepted")}, "JobAccepted"),
        ({"Created": (True, "JobAccepted"), "DatasetReady": (False, "Packing")}, "Packing"),
        ({"DatasetReady": (True, "Sealed")}, "Sealed"),
        ({"DatasetReady": (True, "Sealed"), "Running": (False, "Unschedulable")}, "Unschedulable"),
        (
            {"DatasetReady": (False, "ImagePullBackOff"), "Running": (False, "x")},
            "ImagePullBackOff",
        ),
        ({"DatasetReady": (True, "Sealed"), "Suspended": (True, "Suspended")}, "Suspended"),
        ({"Running": (False, "WorkerFailed"), "Failed": (True, "BackoffLimit")}, "BackoffLimit"),
    ],
)
def test_the_reason_is_that_of_the_condition_that_explains_the_phase(
    given: dict[ConditionType, tuple[bool, str]], expected: str | None
) -> None:
    found: tuple[Condition, ...] = ()
    for kind, (value, reason) in given.items():
        found = job_status.put(found, kind, value, reason, "", now=NOW, generation=1)
    assert job_status.reason(Status(conditions=found)) == expected


def test_a_running_clock_means_preparing() -> None:
    status = Status(preparation=Clock(since=NOW))
    assert job_status.phase(status, suspends=False) == "Preparing"


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


FOLDER = "jobs/digits-6f3c2a10"


def job(**output: object) -> ImageNetJob:
    document = manifest(training={"output": {"volume": output}} if output else {})
    document["metadata"]["uid"] = "6f3c2a10-0000-4000-8000-000000000000"
    return ImageNetJob.model_validate(document)


@pytest.mark.parametrize(
    ("output", "claim"),
    [
        pytest.param({}, "digits-dataset", id="beside the dataset"),
        pytest.param({"claimName": "models"}, "models", id="on a claim that is there"),
        pytest.param({"size": "1Gi"}, "digits-output", id="on a claim of the job"),
    ],
)
def test_it_names_the_epochs_the_folder_the_claim_and_the_field(
    output: dict[str, object], claim: str
) -> None:
    advice = job_status.checkpoint_advice(job(**output), TrainingStatus(checkpoint_epoch=7))
    assert f"after 7 epochs, is in {FOLDER} of the claim {claim}" in advice
    assert advice.endswith(f"spec.training.checkpoint.initFrom: {FOLDER}")


def test_one_epoch_is_singular_and_a_checkpoint_may_come_before_its_end() -> None:
    assert "after 1 epoch," in job_status.checkpoint_advice(
        job(), TrainingStatus(checkpoint_epoch=1)
    )
    assert "in the first epoch," in job_status.checkpoint_advice(
        job(), TrainingStatus(checkpoint_epoch=0)
    )


@pytest.mark.parametrize("training", [None, TrainingStatus()], ids=["no attempt", "none yet"])
def test_without_a_checkpoint_there_is_nothing_to_say(training: TrainingStatus | None) -> None:
    assert job_status.checkpoint_advice(job(), training) == ""


def test_the_advice_follows_the_message_and_is_never_cut() -> None:
    assert job_status.with_advice("it broke", "go on", 100) == "it broke; go on"
    assert job_status.with_advice("it broke", "", 100) == "it broke"
    assert job_status.with_advice("x" * 100, "go on", 20) == "x" * 12 + "…; go on"


def test_a_message_that_says_it_already_stays() -> None:
    said = "a new job goes on with checkpoint.initFrom: jobs/a/attempts/r0/checkpoints/epoch-0002"
    assert job_status.with_advice(said, "go on", 200) == said

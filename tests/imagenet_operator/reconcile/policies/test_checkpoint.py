"""Where the newest checkpoint of a failed job is, and how a new job goes on from it."""

from __future__ import annotations

import pytest

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.status import TrainingStatus
from imagenet_operator.reconcile.policies import job_status
from support.job_table import manifest

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
    assert job_status.checkpoint_advice(job(**output), TrainingStatus(checkpoint_epoch=7)) == (
        f"the newest checkpoint that the operator knows of, after 7 epochs, is in {FOLDER} of the"
        f" claim {claim}; a new job with this claim goes on with"
        f" spec.training.checkpoint.initFrom: {FOLDER}"
    )


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

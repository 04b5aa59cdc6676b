"""What must hold of the statuses that a simulated cluster is asked to store, in their order."""

from __future__ import annotations

import json

from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.reconcile.policies.job_status import is_worth_a_write
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Condition, Status
from support.simulated_objects import condition, succeeded_workers, true_ends

PUBLISHED = ("Published", "PublishFailed")
"""The reasons of DatasetPublished with which publishing has ended."""


def check_change(old: Status, new: Status) -> None:
    """Check that a status may follow another."""
    read_back = Status.model_validate_json(json.dumps(new.to_manifest()))
    assert not is_worth_a_write(new, read_back), "a status changes by being stored"
    kinds = [condition.type for condition in new.conditions]
    assert len(kinds) == len(set(kinds))
    assert len(true_ends(new)) < 2, "two ends"
    assert not is_finished(old) or true_ends(old) <= true_ends(new), "an end was undone"
    assert succeeded_workers(old) <= succeeded_workers(new) or not (
        old.training is not None
        and new.training is not None
        and old.training.attempt == new.training.attempt
    ), "the success of a worker was undone"
    ended = _end_of_publishing(old)
    assert ended is None or ended == _end_of_publishing(new), "the end of publishing was undone"
    uploaded = condition(old, "ModelUploaded")
    if uploaded is not None and uploaded.status == "True":
        assert condition(new, "ModelUploaded") == uploaded, "the upload of the model was undone"
        assert new.model == old.model, "the place of the model was undone"


def check_published(job: ImageNetJob) -> None:
    """Check that a job whose dataset was ready has recorded how its uploads ended."""
    ready = condition(job.status, "DatasetReady")
    if job.spec.dataset.publish is not None and ready is not None and ready.status == "True":
        assert _end_of_publishing(job.status) is not None, "no end of publishing is recorded"
    if job.spec.training.upload is not None and job.status.model is not None:
        uploaded = condition(job.status, "ModelUploaded")
        assert uploaded is not None, "no upload of the model is recorded"
        is_over = uploaded.status == "True" or uploaded.reason == "UploadLimitExceeded"
        assert is_over, "no end of the upload of the model is recorded"


def _end_of_publishing(status: Status) -> Condition | None:
    found = condition(status, "DatasetPublished")
    return found if found is not None and found.reason in PUBLISHED else None

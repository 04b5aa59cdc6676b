"""Stored jobs that another version has written."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from imagenet_spec import stored
from imagenet_spec.resource.dataset_status import DatasetStatus
from support import job_table

Manifest = dict[str, Any]
SINCE = "2026-01-02T03:04:05Z"


def written(**status: Any) -> Manifest:
    """A stored job with a status."""
    return {**job_table.manifest(), "status": status}


def test_a_job_of_this_version_has_no_problems() -> None:
    found = stored.read(written(restarts=1))
    assert (found.problems, found.is_of_another_version) == ((), False)
    assert found.job.status.restarts == 1


def test_unknown_metadata_and_status_are_left_out() -> None:
    document = written(restarts=1, region="north", phase="Archiving", conditions="none")
    document["metadata"]["fromTheFuture"] = {}
    found = stored.read(document)
    assert found.problems == ()
    assert (found.job.status.restarts, found.job.status.phase) == (1, None)
    assert found.job.spec.training.batch_size == document["spec"]["training"]["batchSize"]


def test_only_the_items_of_a_list_that_cannot_be_read_are_left_out() -> None:
    members = [
        {"name": "a", "role": "worker", "rack": 1},
        {"name": "b", "role": "oracle"},
        {"role": "worker"},
        {"name": "d", "role": "worker", "phase": "Draining"},
    ]
    found = stored.read(written(training={"attempt": 2, "members": members}))
    assert found.job.status.training is not None
    read = [(item.name, item.phase) for item in found.job.status.training.members]
    assert read == [("a", "Pending"), ("d", "Pending")]


@pytest.mark.parametrize(
    ("field", "value", "read", "is_newer"),
    [
        ("ringSize", 4, None, True),
        ("framework", "JAX", "MXNet", True),
        ("batchSize", 2**40, 2**40, True),
        ("batchSize", "many", None, False),
        ("batchSize", None, None, False),
        ("workers", {"replicas": 0, "gpus": 3}, None, True),
    ],
)
def test_fields_of_a_spec_have_their_default_or_the_stored_value(
    field: str, value: Any, read: Any, is_newer: bool
) -> None:
    document = written()
    document["spec"]["training"][field] = value
    found = stored.read(document)
    assert found.is_of_another_version is is_newer
    assert found.problems[0].path.startswith(f"spec.training.{field}")
    training = found.job.spec.training
    if field == "workers":
        assert (training.workers.replicas, training.workers.gpus) == (1, 3)
    elif field != "ringSize":
        assert getattr(training, {"batchSize": "batch_size"}.get(field, field)) == read


@pytest.mark.parametrize("spec", [None, "none", [], {}])
def test_a_spec_without_any_field_can_be_read(spec: Any) -> None:
    found = stored.read({**written(), "spec": spec})
    assert found.problems
    assert not found.is_of_another_version
    assert found.job.spec.run_policy.clean_pod_policy == "Running"
    assert found.job.spec.dataset.source.fields.claim is None


def test_what_cannot_be_read_of_a_status_is_carried() -> None:
    former = {
        "restarts": 1,
        "region": {"name": "north"},
        "phase": "Archiving",
        "conditions": [
            {"type": "Running", "status": "True", "reason": "r", "lastTransitionTime": SINCE}
            | {"severity": "Info"},
            {"type": "Mirrored", "status": "True"},
        ],
        "training": {
            "clock": {"seconds": 1, "since": SINCE, "zone": "Z"},
            "members": [
                {"name": "a", "role": "worker", "rack": 1},
                {"name": "b", "role": "oracle"},
                {"name": "gone", "role": "worker", "rack": 2},
            ],
        },
    }
    before = copy.deepcopy(former)
    status = stored.read(written(**former)).job.status
    assert status.training is not None
    training = status.training.model_copy(update={"members": status.training.members[:1]})
    new = status.model_copy(update={"phase": "Running", "restarts": 2, "training": training})
    merged = stored.carried(former, new)

    assert former == before
    assert (merged["restarts"], merged["phase"]) == (2, "Running")
    assert merged["region"] == {"name": "north"}
    assert merged["conditions"][0]["severity"] == "Info"
    assert merged["conditions"][1] == {"type": "Mirrored", "status": "True"}
    assert merged["training"]["clock"]["zone"] == "Z"
    members = merged["training"]["members"]
    assert [(item["name"], item.get("rack")) for item in members] == [("a", 1), ("b", None)]
    # What is written is read in the same way again.
    assert stored.carried(merged, new) == merged


@pytest.mark.parametrize(
    "model",
    [
        {"claimName": "data", "path": "jobs/digits/attempts/r0"},
        {"bucket": "models", "path": "digits/attempts/r0", "framework": "PyTorch"},
        # What a definition of an earlier release leaves of a model in a bucket.
        {"path": "digits/attempts/r0"},
    ],
)
def test_the_place_of_a_model_is_read_as_any_release_wrote_it(model: Manifest) -> None:
    status = stored.read(written(model=model)).job.status
    assert status.model is not None
    assert status.model.to_manifest() == model


def test_a_result_of_a_newer_program_may_have_further_fields() -> None:
    text = '{"key": "k", "classes": 1, "images": {"train": 2, "more": {}}, "shards": 1, "new": [1]}'
    assert stored.read_known(DatasetStatus, text).images.train == 2
    for broken in ('{"key": "k", "new": 1}', '{"key": 1', "[]"):
        with pytest.raises(ValidationError):
            stored.read_known(DatasetStatus, broken)


def test_groups_of_another_attempt_have_no_members() -> None:
    groups = [
        {"role": "worker", "pods": "digits-r1-worker-[0-999]"},
        {"role": "worker", "pods": "digits-r2-worker-[0-1]"},
    ]
    listed = [{"name": "digits-r2-worker-1", "role": "worker", "phase": "Running"}]
    training = {"attempt": 2, "members": listed, "memberGroups": groups}
    found = stored.read(written(training=training)).job.status.training
    assert found is not None
    assert [(item.name, item.phase) for item in found.members] == [
        ("digits-r2-worker-0", "Pending"),
        ("digits-r2-worker-1", "Running"),
    ]
    assert not found.member_groups

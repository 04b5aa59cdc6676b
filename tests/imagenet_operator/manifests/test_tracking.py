"""A tracked job: one pod has the variables and the Secret of the process beside rank 0."""

from __future__ import annotations

import json
from typing import Any

import pytest

from imagenet_operator.manifests import attempt
from imagenet_spec.errors import InvalidJob
from imagenet_spec.validate import validate
from support.job_table import JOBS, OWN_PROGRAM, manifest, members, read, variables

Manifest = dict[str, Any]

MLFLOW = {"mlflow": {"uriFrom": {"secretKeyRef": {"name": "mlflow"}}}}
OF_TRACKING = {"IMAGENET_TRACKING", "IMAGENET_TRACKING_CREDENTIALS"}


def test_the_first_worker_alone_has_the_secret() -> None:
    pods = members(JOBS["tracked"])
    first = [pod for pod in pods if pod["metadata"]["name"].endswith("-worker-0")]
    assert [pod for pod in pods if "mlflow" in json.dumps(pod["spec"])] == first
    (spec,) = (pod["spec"] for pod in first)
    container = spec["containers"][0]
    found = variables(container)
    assert json.loads(found["IMAGENET_TRACKING"]) == [
        "--tensorboard",
        *("--mlflow-experiment", "digits, by hand"),
        *("--mlflow-uri-key", "address"),
    ]
    path = found["IMAGENET_TRACKING_CREDENTIALS"]
    (mount,) = (item for item in container["volumeMounts"] if item["mountPath"] == path)
    assert mount["readOnly"]
    (volume,) = (item for item in spec["volumes"] if item["name"] == mount["name"])
    # A training starts though the Secret is missing.
    assert volume["secret"] == {"secretName": "mlflow", "defaultMode": 0o440, "optional": True}
    # Only variables and arguments that name it, never a key of the Secret as a value.
    assert "secretKeyRef" not in json.dumps(spec)


def test_kubernetes_expands_nothing_in_the_name_of_an_experiment() -> None:
    mlflow = {**MLFLOW["mlflow"], "experiment": "costs $(IMAGENET_JOB)"}
    pods = members(read(manifest(training={"tracking": {"mlflow": mlflow}})))
    found = [variables(pod["spec"]["containers"][0]).get("IMAGENET_TRACKING") for pod in pods]
    (value,) = filter(None, found)
    assert "costs $$(IMAGENET_JOB)" in value


def test_all_else_is_that_of_a_job_without_tracking() -> None:
    tracked, plain = members(JOBS["tracked"]), members(JOBS["defaults"])
    for pod in tracked:
        container = pod["spec"]["containers"][0]
        container["env"] = [item for item in container["env"] if item["name"] not in OF_TRACKING]
        for place in (container["volumeMounts"], pod["spec"]["volumes"]):
            place[:] = [item for item in place if item["name"] != "tracking-credentials"]
    assert tracked == plain


def test_tracking_changes_nothing_of_what_is_trained() -> None:
    assert attempt.training_hash(JOBS["tracked"]) == attempt.training_hash(JOBS["defaults"])


def test_files_for_tensorboard_need_no_secret() -> None:
    pods = members(read(manifest(training={"tracking": {"tensorBoard": {}}})))
    found = [variables(pod["spec"]["containers"][0]) for pod in pods]
    tracked = [one for one in found if one.keys() & OF_TRACKING]
    assert [one["IMAGENET_TRACKING"] for one in tracked] == ['["--tensorboard"]']
    assert "IMAGENET_TRACKING_CREDENTIALS" not in tracked[0]


def test_a_program_of_ones_own_is_not_tracked() -> None:
    job = manifest(training={**OWN_PROGRAM, "tracking": {"tensorBoard": {}}})
    (problem,) = validate(job)
    assert problem.path == "spec.training.tracking"
    assert "needs imagenet-train" in problem.message
    with pytest.raises(InvalidJob, match=r"spec\.training\.tracking"):
        members(read(job))


@pytest.mark.parametrize(
    ("tracking", "field"),
    [
        ({}, "spec.training.tracking"),
        ({"mlflow": {}}, "spec.training.tracking.mlflow.uriFrom"),
        ({"mlflow": {"uriFrom": {}}}, "spec.training.tracking.mlflow.uriFrom.secretKeyRef"),
        ({"mlflow": {"uri": "http://x"}}, "spec.training.tracking.mlflow.uri"),
        ({**MLFLOW, "wandb": {}}, "spec.training.tracking.wandb"),
    ],
)
def test_wrong_fields_are_named(tracking: Manifest, field: str) -> None:
    found = validate(manifest(training={"tracking": tracking}))
    assert field in {problem.path for problem in found}

"""The pod of imagenet-door: where it may run, what it may do, and whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.manifests import names
from imagenet_operator.manifests.door import Node, Uploaded, door_pod
from imagenet_operator.reconcile import observe
from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import DOOR
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.templates import template_problems
from imagenet_spec.validate import parse
from support import job_table
from support.pod_security import violations
from support.pod_subset import console_scripts

Manifest = dict[str, Any]
SPOT = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def pod(*, writable: bool = False, **choices: Any) -> Manifest:
    return door_pod("door-1", "vision", "raw", "preparation:1", writable=writable, **choices)


def job(**changes: Any) -> ImageNetJob:
    return parse(job_table.manifest(**changes))


@pytest.mark.parametrize("writable", [False, True])
def test_a_restricted_namespace_and_the_strict_profile_admit_it(writable: bool) -> None:
    built = pod(writable=writable, node=Node("node-1", (GPU,)))
    assert violations(built) == []
    chosen = {name: built["spec"][name] for name in ("affinity", "tolerations")}
    # A template may not name the volume that all pods have.
    chosen["volumes"] = [item for item in built["spec"]["volumes"] if item["name"] != "scratch"]
    refused = template_problems({"spec": chosen}, "pod", profile="strict")
    assert list(refused) == []
    assert not {"serviceAccountName", "nodeName", "priorityClassName"} & built["spec"].keys()
    assert built["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("writable", [False, True])
def test_its_program_understands_its_arguments_and_writes_only_where_it_may(writable: bool) -> None:
    container = pod(writable=writable)["spec"]["containers"][0]
    assert container["command"][0] in console_scripts()
    parsed = parser(DOOR).parse_args(container["args"])
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert parsed.writable is writable
    assert mounts[str(parsed.folder)].get("readOnly", False) is not writable


def test_a_quota_counts_requests_and_limits_and_the_pod_ends() -> None:
    spec = pod()["spec"]
    for kind in ("requests", "limits"):
        assert spec["containers"][0]["resources"][kind].keys() == {"cpu", "memory"}
    assert spec["activeDeadlineSeconds"] > 0
    assert spec["restartPolicy"] == "Never"


def test_it_goes_with_its_job_and_is_no_child_of_it() -> None:
    owner = job()
    built = pod(job=owner)
    (reference,) = built["metadata"]["ownerReferences"]
    assert reference["uid"] == owner.metadata.uid
    # Otherwise a user would need the right to end the job's finalizers.
    assert not reference["blockOwnerDeletion"]
    observed = observe.sort(owner, [{**built, "status": {"phase": "Pending"}}])
    assert observed.attempts == {} and observed.waiting == ()


def test_it_pulls_and_is_placed_as_the_pods_of_its_job() -> None:
    template = {"spec": {"tolerations": [SPOT]}}
    owner = job(
        training={
            "imagePullSecrets": [{"name": "registry"}],
            "workers": {"replicas": 2, "template": template},
        }
    )
    spec = pod(job=owner, node=Node("node-1", (SPOT, GPU)))["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["tolerations"] == [SPOT, GPU]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchFields"][0]["values"] == ["node-1"]
    assert "affinity" not in pod()["spec"]


@pytest.mark.parametrize("secret", [None, "keys"])
def test_it_fetches_uploaded_results_with_the_secret_of_the_upload(secret: str | None) -> None:
    s3 = {"bucket": "models", "endpoint": "https://s3.example.com", "region": "eu-1"}
    named = {} if secret is None else {"secretName": secret}
    owner = job(training={"output": {"upload": {"s3": {**s3, "prefix": "d", **named}}}})
    served = Uploaded("s3://models/d/digits-1", checkpoints=True)
    built = door_pod("door-1", "vision", served, "preparation:1", writable=False, job=owner)
    assert violations(built) == []
    container = built["spec"]["containers"][0]
    parsed = parser(DOOR).parse_args(container["args"])
    given = (parsed.results, parsed.checkpoints, parsed.endpoint, parsed.region)
    assert given == (served.url, True, s3["endpoint"], s3["region"])
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in built["spec"]["volumes"]}
    assert volumes["claim"] == {"name": "claim", "emptyDir": {}}
    folder = names.output_folder("digits", owner.metadata.uid)
    assert str(parsed.into) == f"{mounts['claim']['mountPath']}/{folder}"
    found = volumes["credentials"]["secret"]["secretName"] if "credentials" in volumes else None
    assert found == secret
    variables = {item["name"]: item["value"] for item in container["env"]}
    path = mounts["credentials"]["mountPath"] if secret else None
    assert variables.get("IMAGENET_CREDENTIALS") == path

"""`helm test`: its pod, and its program with the rights that the chart gives it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.sdk.background import run
from support import chart
from support.chart import Manifest, granted, one
from support.client_jobs import UserCluster, condition
from support.processes import wait_until
from support.sentences import assert_says

NAME = f"{chart.RELEASE}-test"
JOB = "test-0a1b2c3d"
MESSAGE = "test-0a1b2c3d-index: the image does not exist"


def pod(**values: Manifest) -> Manifest:
    """Return the pod of the test."""
    return one(chart.render(values), "Pod")


@pytest.mark.parametrize("variant", ["default", "everything", "two namespaces"])
def test_the_pod_meets_the_restricted_standard(variant: str) -> None:
    spec = one(chart.render(chart.VARIANTS[variant]), "Pod")["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_nothing_of_the_operator_selects_the_pod() -> None:
    rendered = chart.render({})
    service = one(rendered, "Service")["spec"]["selector"]
    assert not service.items() <= pod()["metadata"]["labels"].items()


def test_only_helm_test_makes_its_objects() -> None:
    with_it, without = chart.render({}), chart.render({"tests": {"enabled": False}})
    hooks = [item for item in with_it if item not in without]
    assert {item["kind"] for item in hooks} == {"Pod", "Role", "RoleBinding", "ServiceAccount"}
    for item in hooks:
        annotations = item["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "test"
        policy = set(annotations["helm.sh/hook-delete-policy"].split(","))
        is_pod = item["kind"] == "Pod"
        # The pod of a failed test stays, with its log.
        assert policy == {"before-hook-creation", "hook-succeeded"} | (
            set() if is_pod else {"hook-failed"}
        )
        assert ("helm.sh/hook-output-log-policy" in annotations) == is_pod


@pytest.mark.parametrize(
    ("values", "namespace"),
    [
        ({}, chart.NAMESPACE),
        ({"watchNamespaces": ["vision", "research"]}, "vision"),
        ({"watchNamespaces": ["vision"], "tests": {"namespace": "research"}}, "research"),
    ],
)
def test_the_job_is_where_an_operator_is(values: Manifest, namespace: str) -> None:
    rendered = chart.render(values)
    test = one(rendered, "Pod")
    assert test["metadata"]["namespace"] == chart.NAMESPACE
    assert {"name": "NAMESPACE", "value": namespace} in test["spec"]["containers"][0]["env"]
    binding = one(rendered, "RoleBinding", NAME)
    assert one(rendered, "Role", NAME)["metadata"]["namespace"] == namespace
    assert binding["metadata"]["namespace"] == namespace
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": NAME, "namespace": chart.NAMESPACE}
    ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[UserCluster]:
    found = UserCluster(tmp_path)
    role = one(chart.render({}), "Role", NAME)
    found.server.verbs = {what: frozenset(verbs) for what, verbs in granted([role]).items()}
    yield found
    found.close()


def start(cluster: UserCluster, seconds: int = 240) -> subprocess.Popen[str]:
    """Start the program of the pod."""
    (container,) = pod(tests={"timeoutSeconds": seconds})["spec"]["containers"]
    programs = str(Path(sys.executable).parent)
    return subprocess.Popen(
        [*container["command"], *container["args"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "PATH": os.pathsep.join([programs, os.environ["PATH"]]),
            "KUBECONFIG": str(cluster.kubeconfig),
            "NAMESPACE": "vision",
            "POD_UID": "0a1b2c3d-0000-4000-8000-000000000000",
        },
    )


def end_job(cluster: UserCluster, **status: object) -> None:
    """Wait until the job is there, and write its status as the operator does."""
    stored = wait_until(
        lambda: cluster.server.get(objects.JOB.name, JOB) or {}, "the job is submitted"
    )
    assert stored["spec"]["dataset"]["source"]["synthetic"]["classes"] == 4
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "why", "namespace": "vision"},
        "involvedObject": {"kind": "ImageNetJob", "name": JOB, "uid": stored["metadata"]["uid"]},
        "type": "Warning",
        "reason": "ImageMissing",
        "message": "the kubelet says so",
        "lastTimestamp": datetime.now(UTC).isoformat(),
    }
    run(cluster.server.add(event))
    run(cluster.server.change(objects.JOB.name, JOB, lambda job: job.update(status=status)))


def test_a_job_that_succeeds_is_deleted(cluster: UserCluster) -> None:
    process = start(cluster)
    end_job(cluster, phase="Succeeded", conditions=[condition("Succeeded")])
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert f"{JOB}: it is Succeeded" in output
    assert cluster.server.get(objects.JOB.name, JOB) is None


def test_a_job_that_fails_is_explained_and_deleted(cluster: UserCluster) -> None:
    process = start(cluster)
    failed = condition("Failed", "ImageMissing", MESSAGE)
    end_job(cluster, phase="Failed", reason="ImageMissing", conditions=[failed])
    output, _ = process.communicate()
    assert process.returncode == 1, output
    assert f"{JOB} will not be Succeeded: it is Failed: ImageMissing: {MESSAGE}" in output
    assert f"Failed       True ImageMissing {MESSAGE}" in output
    assert "Warning  ImageMissing: the kubelet says so" in output
    assert cluster.server.get(objects.JOB.name, JOB) is None


@pytest.mark.costly
def test_a_job_that_never_ends_is_explained_and_deleted(cluster: UserCluster) -> None:
    process = start(cluster, seconds=1)
    output, _ = process.communicate()
    assert process.returncode == 4, output
    assert_says(output, "not Succeeded after 1 seconds", "not seen by an operator")
    assert cluster.server.get(objects.JOB.name, JOB) is None

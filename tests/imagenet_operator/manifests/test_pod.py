"""What every pod has, whatever runs in it: the subset of both clusters and the security floor."""

from typing import Any

import pytest
from hypothesis import given
from imagenet_operator.api import ImageNetJob
from imagenet_operator.manifests import attempt, dataset
from support.job_table import JOBS, jobs
from support.pod_subset import outside_subset

Manifest = dict[str, Any]


def pods(job: ImageNetJob) -> list[Manifest]:
    """Return every kind of pod that a job makes."""
    built = attempt.build(job, 2)[1:]
    if job.spec.dataset.source.prepared is None:
        assert job.status.dataset is not None
        preparation = (
            dataset.index_job(job),
            dataset.pack_job(job, job.status.dataset),
            dataset.seal_job(job, job.status.dataset),
        )
        built += [item["spec"]["template"] for item in preparation]
    return built


@pytest.mark.parametrize("name", JOBS)
def test_the_tables_pods_use_only_what_both_clusters_have(name: str) -> None:
    assert [outside_subset(pod) for pod in pods(JOBS[name])] == [[]] * len(pods(JOBS[name]))


@given(job=jobs())
def test_any_pod_uses_only_what_both_clusters_have(job: ImageNetJob) -> None:
    built = pods(job)
    assert [outside_subset(pod) for pod in built] == [[]] * len(built)


@given(job=jobs())
def test_no_pod_has_more_rights_than_it_needs(job: ImageNetJob) -> None:
    for pod in pods(job):
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["restartPolicy"] == "Never"
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        }
        assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & spec.keys()


@given(job=jobs())
def test_every_pod_can_write_to_its_scratch(job: ImageNetJob) -> None:
    for pod in pods(job):
        container = pod["spec"]["containers"][0]
        env = {item["name"]: item.get("value") for item in container["env"]}
        assert env["HOME"] == env["TMPDIR"] == "$(IMAGENET_SCRATCH)"
        mount = next(m for m in container["volumeMounts"] if m["mountPath"] == "/scratch")
        assert env["IMAGENET_SCRATCH"] == mount["mountPath"] and "readOnly" not in mount
        volume = next(v for v in pod["spec"]["volumes"] if v["name"] == mount["name"])
        assert volume["emptyDir"] == {}


@given(job=jobs())
def test_every_pod_says_whose_it_is(job: ImageNetJob) -> None:
    for pod in pods(job):
        container = pod["spec"]["containers"][0]
        env = {item["name"]: item.get("value") for item in container["env"]}
        assert env["IMAGENET_JOB"] == job.metadata.name
        assert env["IMAGENET_NAMESPACE"] == job.metadata.namespace
        assert env["IMAGENET_JOB_UID"] == job.metadata.uid
        role = pod["metadata"]["labels"]["training.imagenet.dev/job-role"]
        assert env["IMAGENET_ROLE"] == role
        assert container["terminationMessagePath"] == env["IMAGENET_TERMINATION_LOG"]


def test_pull_secrets_reach_every_pod() -> None:
    for pod in pods(JOBS["gpus"]):
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_a_pod_keeps_to_its_node_whatever_affinity_its_template_brings() -> None:
    own = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}}
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    job = JOBS["one node"]
    workers = job.spec.training.workers.model_copy(
        update={"template": {"spec": {"affinity": {"podAffinity": {rule: [own]}}}}}
    )
    training = job.spec.training.model_copy(update={"workers": workers})
    job = job.model_copy(update={"spec": job.spec.model_copy(update={"training": training})})
    terms = attempt.build(job, 0)[-1]["spec"]["affinity"]["podAffinity"][rule]
    assert [term["topologyKey"] for term in terms] == ["rack", "kubernetes.io/hostname"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("command", ["sh", "-c"]), "is no console script"),
        (("args", ["$(UNKNOWN)/x"]), "refers to UNKNOWN, which is not set"),
        (("args", ["/data/x"]), "is an absolute path"),
        (("env", [{"name": "A", "value": "$(B)"}, {"name": "B", "value": "1"}]), "not set before"),
        (("env", [{"name": "A", "value": "/data"}]), "is an absolute path"),
        (("env", [{"name": "IMAGENET_DATA", "value": "/nowhere"}]), "where nothing is mounted"),
        (("env", [{"name": "A", "valueFrom": {"secretKeyRef": {}}}]), "neither a literal"),
        (("lifecycle", {}), "field lifecycle"),
        (("volumeMounts", []), "is there but not mounted"),
    ],
)
def test_the_check_itself_sees_what_is_outside(change: tuple[str, Any], complaint: str) -> None:
    pod = attempt.build(JOBS["defaults"], 0)[-1]
    field, value = change
    pod["spec"]["containers"][0][field] = value
    assert any(complaint in text for text in outside_subset(pod))

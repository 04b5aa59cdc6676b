"""Claims that are made, and which pods mount what."""

from typing import Any

import pytest
from hypothesis import given

from imagenet_operator.manifests import attempt, dataset, volumes
from imagenet_spec.errors import InvalidJob
from imagenet_spec.resource import ImageNetJob
from support.job_table import JOBS, manifest, members, read
from support.random_jobs import jobs

Manifest = dict[str, Any]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("defaults", {"digits-dataset": ("200Gi", ["ReadWriteMany"], None)}),
        ("prepared", {}),
        ("prepared with its own output", {}),
        ("resized", {"digits-dataset": ("200Gi", ["ReadWriteMany"], None)}),
        ("output on the dataset's claim", {}),
        ("one node", {"digits-dataset": ("9Gi", ["ReadWriteOnce"], None)}),
        ("output on one node", {"digits-output": ("1Gi", ["ReadWriteOnce"], "local")}),
        ("no class", {"digits-dataset": ("9Gi", ["ReadWriteMany"], "")}),
        (
            "deletes its volumes",
            {
                "digits-dataset": ("200Gi", ["ReadWriteMany"], None),
                "digits-output": ("1Gi", ["ReadWriteMany"], None),
            },
        ),
    ],
)
def test_claims_are_made_where_none_is_named(
    name: str, expected: dict[str, tuple[str, list[str], str | None]]
) -> None:
    made = {
        claim["metadata"]["name"]: (
            claim["spec"]["resources"]["requests"]["storage"],
            claim["spec"]["accessModes"],
            claim["spec"].get("storageClassName"),
        )
        for claim in volumes.claims(JOBS[name])
    }
    assert made == expected


@given(job=jobs())
def test_claims_belong_to_the_job_only_when_they_are_to_be_deleted_with_it(
    job: ImageNetJob,
) -> None:
    for claim in volumes.claims(job):
        owned = [owner["uid"] for owner in claim["metadata"].get("ownerReferences", ())]
        delete = job.spec.run_policy.retention_policy == "Delete"
        assert owned == ([job.metadata.uid] if delete else [])


def mounted(pod: Manifest) -> dict[str, tuple[str, bool]]:
    """Variable → its claim, and whether it can be written."""
    container = pod["spec"]["containers"][0]
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    by_path = {
        mount["mountPath"]: (claims[mount["name"]], not mount.get("readOnly", False))
        for mount in container["volumeMounts"]
        if mount["name"] in claims
    }
    env = {item["name"]: item.get("value") for item in container["env"]}
    found = {name: by_path[path] for name, path in env.items() if path in by_path}
    if env.get("IMAGENET_OUTPUT") == "$(IMAGENET_DATA)":
        found["IMAGENET_OUTPUT"] = found["IMAGENET_DATA"]
    return found


@pytest.mark.parametrize(
    ("name", "data", "output"),
    [
        ("defaults", ("digits-dataset", True), ("digits-dataset", True)),
        ("prepared", ("shared", True), ("shared", True)),
        ("prepared with its own output", ("shared", False), ("results", True)),
        ("resized", ("digits-dataset", True), ("digits-dataset", True)),
        ("output on one node", ("shared", False), ("digits-output", True)),
        ("output on the dataset's claim", ("shared", True), ("shared", True)),
    ],
)
def test_workers_read_the_dataset_and_write_the_output(
    name: str, data: tuple[str, bool], output: tuple[str, bool]
) -> None:
    worker = attempt.build(JOBS[name], 0)[-1]
    assert mounted(worker) == {"IMAGENET_DATA": data, "IMAGENET_OUTPUT": output}


def test_a_claim_that_is_source_and_data_is_one_volume_of_a_pod() -> None:
    """Two volumes of one claim would keep the pod from ever starting."""
    source = {"volume": {"claimName": "shared", "path": "raw/digits.tar"}}
    job = read(manifest(dataset={"source": source, "volume": {"claimName": "shared"}}))

    pod = dataset.index_job(job)["spec"]["template"]

    claims = [item for item in pod["spec"]["volumes"] if "persistentVolumeClaim" in item]
    assert [item["persistentVolumeClaim"]["claimName"] for item in claims] == ["shared"]
    assert mounted(pod) == {"IMAGENET_SOURCE": ("shared", False), "IMAGENET_DATA": ("shared", True)}


def test_schedulers_and_servers_mount_no_claim() -> None:
    for pod in members(JOBS["defaults"]):
        if "-worker-" not in pod["metadata"]["name"]:
            assert mounted(pod) == {}


def test_preparation_reads_the_source_and_writes_the_dataset() -> None:
    job = JOBS["defaults"]
    assert job.status.dataset is not None
    source, data = ("raw", False), ("digits-dataset", True)
    both = {"IMAGENET_SOURCE": source, "IMAGENET_DATA": data}
    assert mounted(dataset.index_job(job)["spec"]["template"]) == both
    assert mounted(dataset.pack_job(job, job.status.dataset)["spec"]["template"]) == both
    seal = dataset.seal_job(job, job.status.dataset)["spec"]["template"]
    assert mounted(seal) == {"IMAGENET_DATA": data}
    synthetic = dataset.index_job(JOBS["synthetic"])["spec"]["template"]
    assert mounted(synthetic) == {"IMAGENET_DATA": data}
    resized = dataset.index_job(JOBS["resized"])["spec"]["template"]
    assert mounted(resized) == {**both, "IMAGENET_SOURCE": ("shared", False)}


@pytest.mark.parametrize(
    ("name", "pack_shares", "workers_share"),
    [
        ("defaults", False, False),
        ("one node", True, True),
        ("output on one node", False, True),
        ("prepared", False, False),
    ],
)
def test_pods_that_share_a_single_node_volume_share_its_node(
    name: str, pack_shares: bool, workers_share: bool
) -> None:
    job = JOBS[name]
    assert job.status.dataset is not None
    pack = dataset.pack_job(job, job.status.dataset)["spec"]["template"]
    assert shares_node_with(pack) == (selector("pack") if pack_shares else None)
    worker = attempt.build(job, 0)[-1]
    assert shares_node_with(worker) == (selector("worker") if workers_share else None)
    assert selector("worker").items() <= worker["metadata"]["labels"].items()
    assert selector("pack").items() <= pack["metadata"]["labels"].items()
    assert shares_node_with(dataset.index_job(job)["spec"]["template"]) is None
    assert shares_node_with(members(job)[0]) is None


@pytest.mark.parametrize("mode", ["ReadWriteOncePod", "ReadOnlyMany"])
def test_a_volume_that_only_one_pod_could_write_is_refused_for_more(mode: str) -> None:
    narrow = {"volume": {"size": "1Gi", "accessModes": [mode]}}
    job = read(manifest(dataset=narrow))
    assert job.status.dataset is not None
    dataset.index_job(job)
    with pytest.raises(InvalidJob, match=rf"spec\.dataset\.volume\.accessModes: {mode} .* 8 pods"):
        dataset.pack_job(job, job.status.dataset)
    output = read(manifest(training={"output": narrow}))
    with pytest.raises(InvalidJob, match=r"spec\.training\.output.*write \[ReadWriteMany\]"):
        attempt.build(output, 0)
    attempt.build(read(manifest(training={"output": narrow, "workers": {"replicas": 1}})), 0)


@pytest.mark.parametrize(
    ("claims", "pack_shares", "workers_share"),
    [((), False, False), (("raw",), True, False), (("shared",), True, True)],
)
def test_pods_share_a_node_for_a_claim_that_a_cluster_told_of(
    claims: tuple[str, ...], pack_shares: bool, workers_share: bool
) -> None:
    job = read(manifest(dataset={"volume": {"claimName": "shared"}}))
    told = job.status.model_copy(update={"single_node_claims": claims})
    job = job.model_copy(update={"status": told})
    assert told.dataset is not None
    pack = dataset.pack_job(job, told.dataset)["spec"]["template"]
    assert shares_node_with(pack) == (selector("pack") if pack_shares else None)
    worker = members(job)[-1]
    assert shares_node_with(worker) == (selector("worker") if workers_share else None)


def test_workers_share_the_node_of_their_own_attempt() -> None:
    terms = [shares_node_with(members(JOBS["one node"], number)[-1]) for number in (3, 4)]
    assert [term and term["training.imagenet.dev/attempt"] for term in terms] == ["3", "4"]


def selector(role: str) -> dict[str, str]:
    return {
        "training.imagenet.dev/job-name": "digits",
        "training.imagenet.dev/job-role": role,
        **({"training.imagenet.dev/attempt": "0"} if role == "worker" else {}),
    }


def shares_node_with(pod: Manifest) -> dict[str, str] | None:
    affinity = pod["spec"].get("affinity", {}).get("podAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    if not terms:
        return None
    assert terms[-1]["topologyKey"] == "kubernetes.io/hostname"
    labels: dict[str, str] = terms[-1]["labelSelector"]["matchLabels"]
    return labels

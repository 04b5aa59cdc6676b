"""A worker in whatever strategy: where it reads and writes, and whose program it runs."""

from typing import Any

import pytest

from imagenet_operator.manifests.settings import Settings
from imagenet_spec.errors import InvalidJob, InvalidTemplate
from support.job_table import (
    BUCKET,
    JOBS,
    KEY,
    OWN_PROGRAM,
    UID,
    manifest,
    members,
    read,
    tensorflow,
    variables,
)

Manifest = dict[str, Any]
RESULTS = f"jobs/digits-{UID[:8]}"
STRATEGIES: dict[str, Manifest] = {
    "parameterServer": manifest(training=OWN_PROGRAM),
    "horovod": manifest(training={"strategy": {"horovod": {"slotsPerWorker": 2}}, **OWN_PROGRAM}),
    "multiWorkerMirrored": tensorflow({"multiWorkerMirrored": {}}, **OWN_PROGRAM),
}
PLACES = {
    "parameterServer": "DMLC_ROLE",
    "horovod": "HOROVOD_RANK",
    "multiWorkerMirrored": "TF_CONFIG",
}


def worker(document: Manifest) -> Manifest:
    """Return the container of the last worker."""
    found: Manifest = members(read(document))[-1]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize(
    ("name", "dataset", "results"),
    [
        ("defaults", f"$(IMAGENET_DATA)/datasets/{KEY}", f"$(IMAGENET_OUTPUT)/{RESULTS}"),
        ("resized", f"$(IMAGENET_DATA)/datasets/{KEY}", f"$(IMAGENET_OUTPUT)/{RESULTS}"),
        ("prepared", "$(IMAGENET_DATA)/datasets/imagenet", f"$(IMAGENET_OUTPUT)/{RESULTS}"),
        ("output on one node", f"$(IMAGENET_DATA)/datasets/{KEY}", f"$(IMAGENET_OUTPUT)/{RESULTS}"),
    ],
)
def test_a_worker_is_told_where_it_reads_and_writes(name: str, dataset: str, results: str) -> None:
    given = variables(members(JOBS[name])[-1]["spec"]["containers"][0])
    assert (given["IMAGENET_DATASET"], given["IMAGENET_RESULTS"]) == (dataset, results)
    order = list(given)
    assert order.index("IMAGENET_DATA") < order.index("IMAGENET_DATASET")
    assert order.index("IMAGENET_OUTPUT") < order.index("IMAGENET_RESULTS")


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("output on one node", Settings(), "2"),
        ("defaults", Settings(), None),
        ("defaults", Settings(one_node=True), "2"),
    ],
)
def test_workers_know_how_many_share_their_node(
    name: str, settings: Settings, expected: str | None
) -> None:
    job = JOBS[name]
    found = variables(members(job, settings=settings)[-1]["spec"]["containers"][0])
    assert found.get("IMAGENET_PODS_ON_NODE") == expected


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_program_of_ones_own_gets_the_surroundings_and_no_options(kind: str) -> None:
    container = worker(STRATEGIES[kind])
    assert container["image"] == "registry.example/team/train:7"
    assert container["command"] == ["python", "-m", "team.train"]
    assert container["args"] == ["--data", "$(IMAGENET_DATASET)", "--into", "$(IMAGENET_RESULTS)"]
    given = variables(container)
    assert {"IMAGENET_DATA", "IMAGENET_DATASET", "IMAGENET_RESULTS", PLACES[kind]} <= given.keys()
    assert "readinessProbe" not in container
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_program_without_arguments_gets_none() -> None:
    document = manifest(training=OWN_PROGRAM)
    (program,) = document["spec"]["training"]["workers"]["template"]["spec"]["containers"]
    del program["args"]
    assert worker(document)["args"] == []


def test_a_program_may_tell_its_readiness_itself() -> None:
    document = manifest(training=OWN_PROGRAM)
    probe = {"tcpSocket": {"port": 8080}}
    (program,) = document["spec"]["training"]["workers"]["template"]["spec"]["containers"]
    program["readinessProbe"] = probe
    assert worker(document)["readinessProbe"] == probe


def test_the_licence_is_for_the_model_card() -> None:
    document = manifest()
    document["spec"]["dataset"]["license"] = "CC BY-SA 4.0, © the authors"
    arguments = worker(document)["args"]
    place = arguments.index("--dataset-license")
    assert arguments[place + 1] == "CC BY-SA 4.0, © the authors"
    assert "--dataset-license" not in worker(manifest())["args"]


def test_an_image_of_ones_own_with_the_operators_program_gets_its_options() -> None:
    container = worker(manifest(training={"image": "registry.example/team/train:7"}))
    assert container["command"] == ["imagenet-train"]
    assert "--dataset" in container["args"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_helpers_stay_the_operators_own() -> None:
    scheduler, *_ = members(read(manifest(training=OWN_PROGRAM)))
    assert scheduler["spec"]["containers"][0]["command"] == ["imagenet-train"]


def without_image() -> Manifest:
    document = manifest(training=OWN_PROGRAM)
    del document["spec"]["training"]["image"]
    return document


def of_the_servers() -> Manifest:
    document = manifest(training={"image": "registry.example/team/train:7"})
    servers = document["spec"]["training"]["strategy"]["parameterServer"]["servers"]
    servers["template"] = OWN_PROGRAM["workers"]["template"]
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (without_image(), r"workers\.template.*command: cannot be .*as spec\.training\.image"),
        (of_the_servers(), r"servers\.template.*command: cannot be overridden.*; remove it$"),
    ],
)
def test_a_program_of_ones_own_without_its_image_is_refused(
    document: Manifest, message: str
) -> None:
    with pytest.raises(InvalidTemplate, match=message):
        members(read(document))


def test_options_for_a_program_that_does_not_run_are_refused() -> None:
    document = manifest(training={**OWN_PROGRAM, "extraArgs": ["--disp-batches", "50"]})
    with pytest.raises(InvalidJob, match=r"extraArgs: are options of imagenet-train"):
        members(read(document))


def test_a_dataset_in_a_bucket_is_read_with_its_secret_into_a_cache() -> None:
    (pod, *_) = [one for one in members(JOBS["in a bucket"]) if "worker" in one["metadata"]["name"]]
    (container,) = pod["spec"]["containers"]
    options = container["args"]
    first = options.index("--dataset-url")
    assert options[first : options.index("--output")] == [
        *("--dataset-url", "$(IMAGENET_DATASET)"),
        *("--dataset-endpoint", "https://s3.example.com", "--dataset-region", "eu-central-1"),
        *("--cache", "$(IMAGENET_CACHE)", "--cache-size", str(200 << 30)),
    ]
    given = variables(container)
    assert given["IMAGENET_DATASET"] == "s3://datasets/imagenet"
    assert "IMAGENET_DATA" not in given
    volumes = {volume.pop("name"): volume for volume in pod["spec"]["volumes"]}
    assert volumes["cache"] == {"emptyDir": {"sizeLimit": "200Gi"}}
    assert volumes["credentials"]["secret"]["secretName"] == "bucket-keys"
    assert "data" not in volumes
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["cache"] == given["IMAGENET_CACHE"]


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("from an upload", "--init-from-url"),
        ("pretrained by an upload", "--pretrained-url"),
    ],
)
def test_uploaded_results_are_read_with_their_own_secret(name: str, option: str) -> None:
    pod = next(item for item in members(JOBS[name]) if "worker" in item["metadata"]["name"])
    (container,) = pod["spec"]["containers"]
    arguments = container["args"]
    assert arguments[arguments.index(option) + 1] == "s3://datasets/imagenet"
    assert arguments[arguments.index("--start-endpoint") + 1] == "https://s3.example.com"
    assert arguments[arguments.index("--start-region") + 1] == "eu-central-1"
    given = variables(container)
    assert given["IMAGENET_START_CREDENTIALS"] == "/start-credentials"
    assert "IMAGENET_CREDENTIALS" not in given
    mounted = {item["name"]: item["mountPath"] for item in container["volumeMounts"]}
    assert mounted["start-credentials"] == "/start-credentials"
    volumes = {item["name"]: item for item in pod["spec"]["volumes"]}
    assert volumes["start-credentials"]["secret"]["secretName"] == "bucket-keys"


def test_only_workers_get_the_secret_of_a_bucket() -> None:
    for pod in members(JOBS["in a bucket"]):
        is_worker = "worker" in pod["metadata"]["name"]
        assert ("bucket-keys" in str(pod["spec"])) == is_worker


def test_a_cache_on_a_claim_is_shared_by_the_slots_of_a_worker() -> None:
    pod = members(JOBS["on a server"])[-1]
    (cache,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "cache"]
    assert cache["ephemeral"]["volumeClaimTemplate"]["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    options = pod["spec"]["containers"][0]["args"]
    assert options[options.index("--dataset-query-key") + 1] == "sas"
    assert options[options.index("--cache-size") + 1] == str(1 << 29)


def test_a_cache_may_be_memory() -> None:
    cache = {"size": "1Gi", "medium": "Memory"}
    pod = members(
        read(
            manifest(
                dataset={"source": {"prepared": {"s3": BUCKET}}, "volume": None},
                training={
                    "output": {"volume": {"claimName": "results"}},
                    "workers": {"replicas": 2, "cache": cache},
                },
            )
        )
    )[-1]
    expected = {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    assert expected in pod["spec"]["volumes"]

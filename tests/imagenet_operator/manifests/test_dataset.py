"""The Jobs that prepare a dataset: their arguments, and how they run and fail."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.clusters.local.pods import expand
from imagenet_operator.manifests import dataset
from imagenet_operator.manifests.settings import Settings
from imagenet_spec.errors import InvalidTemplate
from imagenet_spec.names import IMAGENET_PODS_ON_NODE
from imagenet_spec.resource import ImageNetJob
from support.job_table import FETCHED, JOBS, KEY, TABLE, manifest, read
from support.random_jobs import jobs

Manifest = dict[str, Any]

DATA = ["--data", "$(IMAGENET_DATA)"]
RAW = ["--source", "$(IMAGENET_SOURCE)/fall11_whole.tar"]
PREPARED = ["--prepared", "$(IMAGENET_SOURCE)/datasets/imagenet"]
OPTIONS = ["--min-images-per-class", "500"]


def all_jobs(job: ImageNetJob, settings: Settings | None = None) -> list[Manifest]:
    """Index, pack and seal."""
    given_settings = settings or Settings()
    assert job.status.dataset is not None
    return [
        dataset.index_job(job, given_settings),
        dataset.pack_job(job, job.status.dataset, given_settings),
        dataset.seal_job(job, job.status.dataset, given_settings),
    ]


def program(job_manifest: Manifest) -> tuple[str, list[str]]:
    container = job_manifest["spec"]["template"]["spec"]["containers"][0]
    return container["command"][0], container["args"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("defaults", [*DATA, *RAW, "--default-validation-per-class", "50", *OPTIONS]),
        (
            "synthetic",
            [
                *DATA,
                *("--synthetic-classes", "10", "--synthetic-images-per-class", "20"),
                *("--synthetic-image-shape", "3,64,48", "--default-validation-per-class", "50"),
                *OPTIONS,
            ],
        ),
        (
            "resized",
            [
                *DATA,
                *PREPARED,
                *("--default-validation-per-class", "50", "--resize", "256", *OPTIONS),
            ],
        ),
        (
            "validation with labels",
            [
                *DATA,
                *RAW,
                *("--validation-source", "$(IMAGENET_SOURCE)/ILSVRC2012_img_val.tar"),
                *("--validation-labels", "$(IMAGENET_SOURCE)/val.txt"),
                *OPTIONS,
            ],
        ),
        (
            "all of preprocessing",
            [
                *DATA,
                *RAW,
                *("--validation-per-class", "7", "--resize", "480", "--quality", "95"),
                *("--shards", "16", "--min-images-per-class", "0", "--seed", "3"),
                *("--max-skipped-fraction", "1e-05"),
            ],
        ),
    ],
)
def test_index_is_told_everything_that_decides_the_dataset(name: str, arguments: list[str]) -> None:
    assert program(dataset.index_job(JOBS[name])) == ("imagenet-index", arguments)


def test_archives_of_annotations_reach_index_alone() -> None:
    given = {"claimName": "raw", "path": "train.tar", "boundingBoxes": ["a/train.tgz", "val.tgz"]}
    job = read(manifest(dataset={"source": {"volume": given}}))
    _, arguments = program(dataset.index_job(job))
    first = arguments.index("--bounding-boxes")
    assert arguments[first : first + 4] == [
        *("--bounding-boxes", "$(IMAGENET_SOURCE)/a/train.tgz"),
        *("--bounding-boxes", "$(IMAGENET_SOURCE)/val.tgz"),
    ]
    assert job.status.dataset is not None
    _, arguments = program(dataset.pack_job(job, job.status.dataset))
    assert "--bounding-boxes" not in arguments


NAMES = ["train.tgz", "val.tgz"]
REMOTE_BOXES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "http": (
        {"files": [{"name": one, "url": f"http://x/{one}"} for one in ("train.tar", *NAMES)]},
        ["--http-bounding-boxes", "train.tgz", "--http-bounding-boxes", "val.tgz"],
    ),
    "s3": (
        {"bucket": "imagenet", "key": "train.tar"},
        ["--s3-bounding-boxes", "train.tgz", "--s3-bounding-boxes", "val.tgz"],
    ),
}


@pytest.mark.parametrize("kind", REMOTE_BOXES)
def test_archives_of_annotations_on_a_server_reach_fetch_and_index(kind: str) -> None:
    source, expected = REMOTE_BOXES[kind]
    given = {**source, "boundingBoxes": NAMES, "cache": {"claimName": "archives"}}
    job = read(manifest(dataset={"source": {kind: given}}))
    assert job.status.dataset is not None
    programs = {
        "fetch": dataset.fetch_job(job),
        "index": dataset.index_job(job),
        "pack": dataset.pack_job(job, job.status.dataset),
    }
    for name, built in programs.items():
        _, arguments = program(built)
        first = next((n for n, one in enumerate(arguments) if "bounding" in one), len(arguments))
        found = arguments[first : first + len(expected)]
        assert found == ([] if name == "pack" else expected)


def test_words_of_classes_reach_index_unexpanded() -> None:
    job = JOBS["defaults"]
    words = {"n01440764": "tench", "n02": "$(HOME) and $5"}
    preprocessing = job.spec.dataset.preprocessing.model_copy(update={"class_words": words})
    with_words = job.spec.dataset.model_copy(update={"preprocessing": preprocessing})
    changed = job.model_copy(update={"spec": job.spec.model_copy(update={"dataset": with_words})})
    _, arguments = program(dataset.index_job(changed))
    found = arguments[arguments.index("--class-word") :][:4]
    assert [expand(one, {"HOME": "/root"}) for one in found] == [
        *("--class-word", "n01440764=tench"),
        *("--class-word", "n02=$(HOME) and $5"),
    ]


def test_pack_and_seal_are_told_the_key() -> None:
    location = [*DATA, "--key", KEY]
    val = ["--validation-source", "$(IMAGENET_SOURCE)/ILSVRC2012_img_val.tar"]
    _, pack, seal = map(program, all_jobs(JOBS["validation with labels"]))
    assert pack == ("imagenet-pack", [*location, *RAW, *val])
    assert seal == ("imagenet-seal", location)
    _, pack, _ = map(program, all_jobs(JOBS["synthetic"]))
    assert pack == ("imagenet-pack", location)
    _, pack, _ = map(program, all_jobs(JOBS["resized"]))
    assert pack == ("imagenet-pack", [*location, *PREPARED])


def test_a_dataset_that_was_sealed_before_is_read_again() -> None:
    job = JOBS["defaults"]
    assert job.status.dataset is not None
    sealed = job.status.dataset.model_copy(update={"sealed": True})
    built = program(dataset.seal_job(job, sealed))
    assert built == ("imagenet-seal", [*DATA, "--key", KEY, "--verify"])


def test_a_prepared_dataset_is_read_again_where_it_lies_and_not_written() -> None:
    built = dataset.verify_job(JOBS["prepared and verified"])
    place = ["--dataset", "$(IMAGENET_DATA)/datasets/imagenet", "--verify"]
    assert program(built) == ("imagenet-seal", place)
    (container,) = built["spec"]["template"]["spec"]["containers"]
    (data,) = [item for item in container["volumeMounts"] if item["mountPath"] == "/data"]
    assert data["readOnly"]


@given(job=jobs(), shards=st.integers(1, 40))
def test_pack_has_one_completion_a_shard_and_no_idle_pods(job: ImageNetJob, shards: int) -> None:
    assert job.status.dataset is not None
    counts = job.status.dataset.model_copy(update={"shards": shards})
    spec = dataset.pack_job(job, counts)["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == shards
    assert 1 <= spec["parallelism"] <= min(shards, job.spec.dataset.preprocessing.parallelism)
    for other in (dataset.index_job(job), dataset.seal_job(job, counts)):
        assert (other["spec"]["completions"], other["spec"]["parallelism"]) == (1, 1)


def test_the_failures_of_one_shard_use_up_no_retries_of_others() -> None:
    index, pack, seal = all_jobs(JOBS["defaults"], Settings(preparation_retries=4))
    assert pack["spec"]["completions"] == 9
    # One failure of each shard more than one shard may have, and no shard may be given up.
    assert pack["spec"]["backoffLimit"] == 13
    assert (pack["spec"]["backoffLimitPerIndex"], pack["spec"]["maxFailedIndexes"]) == (4, 0)
    for other in (index, seal):
        assert other["spec"]["backoffLimit"] == 4
        assert not {"backoffLimitPerIndex", "maxFailedIndexes"} & other["spec"].keys()


def test_failures_that_a_retry_would_repeat_fail_the_job_and_disruptions_do_not_count() -> None:
    for built in all_jobs(JOBS["defaults"], Settings(preparation_retries=4)):
        spec = built["spec"]
        assert spec.get("backoffLimitPerIndex", spec["backoffLimit"]) == 4
        # The policy is only allowed for pods that are never restarted in place.
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
        permanent, disrupted = spec["podFailurePolicy"]["rules"]
        container = spec["template"]["spec"]["containers"][0]["name"]
        assert permanent == {
            "action": "FailJob",
            "onExitCodes": {"containerName": container, "operator": "In", "values": [2, 3]},
        }
        assert disrupted == {
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }


@pytest.mark.parametrize(("name", "suspended"), [("defaults", False), ("suspended", True)])
def test_a_suspended_job_makes_suspended_jobs(name: str, suspended: bool) -> None:
    assert [built["spec"]["suspend"] for built in all_jobs(JOBS[name])] == [suspended] * 3


def test_all_three_belong_to_the_job_and_say_what_they_are() -> None:
    job = JOBS["defaults"]
    for built, role in zip(all_jobs(job), ("index", "pack", "seal"), strict=True):
        metadata = built["metadata"]
        assert (metadata["name"], metadata["namespace"]) == (f"digits-{role}", "vision")
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "imagenet.dev/v1alpha1",
                "kind": "ImageNetJob",
                "name": "digits",
                "uid": job.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert metadata["labels"]["training.imagenet.dev/job-role"] == role
        assert metadata["labels"] == built["spec"]["template"]["metadata"]["labels"]


def test_the_template_reaches_all_three() -> None:
    for built in all_jobs(JOBS["all of preprocessing"]):
        assert built["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "fast"}


def test_a_bad_template_is_blamed_where_it_stands() -> None:
    document = TABLE["defaults"]
    template = {"spec": {"containers": [{"image": "x"}]}}
    spec = {
        **document["spec"],
        "dataset": {**document["spec"]["dataset"], "preprocessing": {"template": template}},
    }
    with pytest.raises(InvalidTemplate) as caught:
        dataset.index_job(read({**document, "spec": spec}))
    assert caught.value.path == "spec.dataset.preprocessing.template.spec.containers[0]"


def test_index_and_pack_are_told_where_in_an_archive_the_classes_lie() -> None:
    source = {"volume": {"claimName": "raw", "path": "a.tar", "pathInArchive": "-a/train"}}
    job = read(manifest(dataset={"source": source}))
    for built in all_jobs(job)[:2]:
        _, arguments = program(built)
        start = arguments.index("--source")
        assert arguments[start : start + 3] == [
            "--source", "$(IMAGENET_SOURCE)/a.tar", "--path-in-archive=-a/train",
        ]  # fmt: skip
    assert "--path-in-archive=-a/train" not in program(all_jobs(job)[2])[1]


def test_index_alone_is_told_which_classes_are_expected() -> None:
    source = {"volume": {"claimName": "raw", "path": "a", "expectedClassNames": "classes.txt"}}
    fields = {"source": source, "preprocessing": {"expectedClasses": 1000}}
    index, pack, seal = (program(built)[1] for built in all_jobs(read(manifest(dataset=fields))))
    for option, value in (
        ("--expected-classes", "1000"),
        ("--expected-class-names", "$(IMAGENET_SOURCE)/classes.txt"),
    ):
        assert index[index.index(option) + 1] == value
        assert option not in pack
        assert option not in seal


def test_the_files_of_a_server_are_fetched_into_the_cache() -> None:
    built = dataset.fetch_job(JOBS["fetched"])
    name, arguments = program(built)
    assert (name, built["metadata"]["name"]) == ("imagenet-fetch", "digits-fetch")
    url = "https://images.example.com/x.tar.gz"
    files = json.dumps([{"name": "x.tar.gz", "url": url}])
    assert arguments == ["--http-files", files, "--cache", "$(IMAGENET_SOURCE)"]
    assert built["spec"]["backoffLimit"] == Settings().preparation_retries
    _, arguments = program(dataset.fetch_job(JOBS["fetched from a bucket"]))
    assert arguments == [
        *("--s3-bucket", "imagenet", "--s3-key", "fall11_whole.tar"),
        *("--s3-validation", "ILSVRC2012_img_val.tar", "--s3-labels", "val.txt"),
        *("--s3-checksum", f"md5:{KEY}", "--cache", "$(IMAGENET_SOURCE)"),
    ]


def test_connections_are_an_option_of_fetch_alone() -> None:
    http = {**FETCHED["http"], "cache": {"claimName": "cache", "connections": 3}}
    job = read(manifest(dataset={"source": {"http": http}}))
    assert program(dataset.fetch_job(job))[1][-2:] == ["--connections", "3"]
    assert "--connections" not in program(dataset.index_job(job))[1]


def test_only_fetch_has_the_secret_and_may_write_to_the_cache() -> None:
    found = {}
    for built in (dataset.fetch_job(JOBS["fetched"]), *all_jobs(JOBS["fetched"])):
        spec = built["spec"]["template"]["spec"]
        mounts = spec["containers"][0]["volumeMounts"]
        found[built["metadata"]["name"]] = {
            one["name"]: one.get("readOnly", False) for one in mounts if one["name"] != "scratch"
        }
    assert found == {
        "digits-fetch": {"source": False, "credentials": True},
        "digits-index": {"source": True, "data": False},
        "digits-pack": {"source": True, "data": False},
        "digits-seal": {"data": False},
    }


def pods_on_node(job_manifest: Manifest) -> str | None:
    container = job_manifest["spec"]["template"]["spec"]["containers"][0]
    values = (
        item.get("value") for item in container["env"] if item["name"] == IMAGENET_PODS_ON_NODE
    )
    return next(values, None)


ONE_NODE = {"size": "9Gi", "accessModes": ["ReadWriteOnce"]}


@pytest.mark.parametrize(
    ("volume", "parallelism", "settings", "expected"),
    [
        # The claim keeps the pods on one node, or they are on this machine.
        (ONE_NODE, 8, Settings(), "8"),
        (ONE_NODE, 3, Settings(), "3"),
        ({"size": "9Gi"}, 8, Settings(one_node=True), "8"),
        # One pod has all cores, and pods of several nodes do not know of each other.
        (ONE_NODE, 1, Settings(), None),
        ({"size": "9Gi"}, 1, Settings(one_node=True), None),
        ({"size": "9Gi"}, 8, Settings(), None),
    ],
)
def test_pack_pods_know_how_many_share_their_node(
    volume: Manifest, parallelism: int, settings: Settings, expected: str | None
) -> None:
    preprocessing = {"shards": 8, "parallelism": parallelism}
    job = read(manifest(dataset={"volume": volume, "preprocessing": preprocessing}))
    assert job.status.dataset is not None
    index, pack, seal = all_jobs(job, settings)
    assert pods_on_node(pack) == expected
    assert (pods_on_node(index), pods_on_node(seal)) == (None, None)

"""All objects of a job, in order."""

from typing import Any

import pytest

from imagenet_operator.manifests import attempt, dataset, preview, protection, volumes
from imagenet_operator.manifests.settings import DEFAULTS
from imagenet_spec.validate import parse
from support.job_table import BUCKET, JOBS, KEY, PREPARED, TABLE, manifest, read


def jobs_of(built: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in built if item["kind"] == "Job"]


@pytest.mark.parametrize("name", JOBS)
def test_it_is_what_the_single_builders_make(name: str) -> None:
    job = JOBS[name]
    status = job.status.dataset
    assert status is not None
    preparation = (
        []
        if job.spec.dataset.is_sealed and job.spec.dataset.verify == "Lengths"
        else [*protection.of_preparation(job, DEFAULTS), dataset.verify_job(job)]
        if job.spec.dataset.is_sealed
        else [
            *protection.of_preparation(job, DEFAULTS),
            *([dataset.fetch_job(job)] if name.startswith("fetched") else []),
            dataset.index_job(job),
            dataset.pack_job(job, status),
            dataset.seal_job(job, status),
        ]
    )
    assert preview.everything(job, status=status, attempt=3) == [
        *volumes.claims(job),
        *preparation,
        *attempt.build(job, 3),
        *([dataset.publish_job(job)] if name == "published" else []),
        *([dataset.upload_job(job, 3)] if name == "uploaded" else []),
    ]


def test_a_job_that_nobody_has_listed_gets_a_stand_in() -> None:
    job = parse(TABLE["defaults"])
    pack, seal = jobs_of(preview.everything(job))[1:]
    assert pack["spec"]["completions"] == job.spec.dataset.preprocessing.shards
    for built in (pack, seal):
        args = built["spec"]["template"]["spec"]["containers"][0]["args"]
        assert args[args.index("--key") + 1] == preview.PLACEHOLDER_KEY


def test_what_is_known_is_taken() -> None:
    job = parse(TABLE["defaults"])
    built = preview.everything(job, status=preview.placeholder_status(job, KEY, 11))
    assert jobs_of(built)[1]["spec"]["completions"] == 11
    where = {"name": "IMAGENET_DATASET", "value": f"$(IMAGENET_DATA)/datasets/{KEY}"}
    assert where in built[-1]["spec"]["containers"][0]["env"]


def test_an_upload_of_a_prepared_dataset_is_protected() -> None:
    publish = {"publish": {"s3": BUCKET}}
    document = manifest(dataset={"source": PREPARED, "volume": None, **publish})
    names = [item["metadata"]["name"] for item in preview.everything(read(document))]
    assert names.index("digits-preparation") < names.index("digits-publish")

"""The labels of a queue on what is made for a job: its Jobs, and each attempt as one group."""

from __future__ import annotations

import pytest

from imagenet_operator.manifests import attempt, dataset
from imagenet_operator.manifests.settings import Settings
from imagenet_spec.resource import ImageNetJob, queue
from imagenet_spec.resource.base import Manifest
from support.job_table import TABLE, read

LABELS = {queue.NAME: "vision", queue.PRIORITY_CLASS: "high"}


def queued(manifest: Manifest) -> ImageNetJob:
    """A job in a queue."""
    labelled = {**manifest, "metadata": {**manifest["metadata"], "labels": LABELS}}
    return read(labelled)


def test_each_job_of_a_preparation_is_in_the_queue() -> None:
    job, fetched = queued(TABLE["defaults"]), queued(TABLE["fetched"])
    assert job.status.dataset is not None
    made = [
        dataset.index_job(job),
        dataset.pack_job(job, job.status.dataset),
        dataset.seal_job(job, job.status.dataset),
        dataset.fetch_job(fetched),
        dataset.publish_job(queued(TABLE["published"])),
        dataset.upload_job(queued(TABLE["uploaded"]), 0),
    ]
    for item in made:
        assert item["metadata"]["labels"].items() >= LABELS.items(), item["metadata"]["name"]
        # Its pods are Kueue's to count by their Job alone.
        assert queue.NAME not in item["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize(("number", "workers"), [(0, 8), (3, 5)])
def test_an_elastic_attempt_is_a_group_of_its_size(number: int, workers: int) -> None:
    made = attempt.build(queued(TABLE["elastic"]), number, Settings(), workers)
    pods = [item for item in made if item["kind"] == "Pod"]
    assert len([one for one in pods if "-worker-" in one["metadata"]["name"]]) == workers
    for pod in pods:
        metadata = pod["metadata"]
        expected = {**LABELS, queue.GROUP: f"digits-r{number}"}
        assert metadata["labels"].items() >= expected.items()
        assert metadata["annotations"][queue.GROUP_SIZE] == str(len(pods))
        assert metadata["annotations"][queue.RETRIABLE] == "false"

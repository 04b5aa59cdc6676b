"""Members and runs killed in the middle of real training: it goes on, and ends right."""

import copy
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from support.processes import wait_until
from support.whole_jobs import Manifest, WholeJob

EPOCHS = 16
GO_ON = r"of the claim (\S+); .* with spec\.training\.checkpoint\.initFrom: (\S+)$"
"""What the message of a failed job says, with the claim and the folder."""

MANIFEST: dict[str, Any] = {
    "apiVersion": "imagenet.dev/v1alpha1",
    "kind": "ImageNetJob",
    "metadata": {"name": "killed"},
    "spec": {
        "dataset": {
            "source": {
                "synthetic": {"classes": 4, "imagesPerClass": 120, "imageShape": [3, 28, 28]}
            },
            "validation": {"split": {"imagesPerClass": 20}},
            "preprocessing": {"shards": 1, "minImagesPerClass": 1},
            "volume": {"size": "1Gi"},
        },
        "training": {
            "strategy": {"parameterServer": {"kvStore": "dist_sync", "servers": {"replicas": 1}}},
            "model": {"network": "lenet", "imageShape": [3, 28, 28]},
            "batchSize": 32,
            "epochs": EPOCHS,
            "optimizer": {"learningRate": 0.01, "stepEpochs": [], "warmupEpochs": 0},
            "checkpoint": {"everyEpochs": 1, "keep": 2},
            "dataThreads": 1,
            "workers": {"replicas": 2},
        },
    },
}


@pytest.fixture
def job(tmp_path: Path) -> WholeJob:
    """One that takes long enough to be killed."""
    return WholeJob(tmp_path / "work", MANIFEST)


@pytest.mark.costly
def test_a_gang_survives_the_loss_of_any_member(job: WholeJob) -> None:
    """One member of each role in turn, each after its attempt has got somewhere."""
    with job.running() as process:
        for attempt, role in enumerate(("worker", "server", "scheduler")):
            job.wait_for_checkpoint(attempt)
            os.kill(job.program(f"r{attempt}-{role}-0"), signal.SIGKILL)

        result = job.finished(process)

    assert result["restarts"] == 3
    assert result["disruptions"] == 0
    assert result["attempt"] == 3
    assert "/attempts/r2/checkpoints/" in result["written"]["resumedFrom"]
    assert result["written"]["epochs"] == EPOCHS
    assert result["validation"]["images"] == 80


def test_a_killed_run_goes_on_from_its_checkpoint(job: WholeJob) -> None:
    with job.running() as process:
        job.wait_for_checkpoint(0)
        process.kill()

    with job.running() as process:
        result = job.finished(process)

    assert (result["restarts"], result["disruptions"], result["attempt"]) == (0, 1, 1)
    assert "/attempts/r0/checkpoints/" in result["written"]["resumedFrom"]
    assert result["dataset"]["folder"].startswith(str(job.workdir))


@pytest.mark.costly
def test_a_new_job_goes_on_as_the_message_of_a_failed_one_says(tmp_path: Path) -> None:
    """The worker is killed, so the message is all of the operator's knowledge."""
    failing = copy.deepcopy(MANIFEST)
    failing["spec"]["runPolicy"] = {"backoffLimit": 0}
    failing["spec"]["training"]["epochs"] = 10 * EPOCHS
    job = WholeJob(tmp_path / "work", failing)
    with job.running() as process:
        wait_until(lambda: "checkpointEpoch" in job.training(), "a checkpoint is in the status")
        os.kill(job.program("r0-worker-0"), signal.SIGKILL)
        output, _ = process.communicate()

    assert process.returncode == 1
    message = json.loads(output.splitlines()[-1])["message"]
    found = re.search(GO_ON, message)
    assert found is not None, message
    result = WholeJob(tmp_path / "work", on_the_claim(*found.groups())).run()
    assert f"/{found[2]}/attempts/r0/checkpoints/" in result["written"]["resumedFrom"]


def on_the_claim(claim: str, init_from: str) -> Manifest:
    """A new job that trains an epoch from a checkpoint on a claim with a dataset."""
    manifest = copy.deepcopy(MANIFEST)
    manifest["metadata"]["name"] = "next"
    manifest["spec"]["dataset"]["volume"] = {"claimName": claim}
    manifest["spec"]["training"] |= {"epochs": 1, "checkpoint": {"initFrom": init_from}}
    return manifest

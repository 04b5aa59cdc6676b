"""Members and runs killed in the middle of real training: it goes on, and ends right."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.processes import processes_with, program_of, wait_until

EPOCHS = 16
MANIFEST = {
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


class Place:
    """A working directory with a job that takes long enough to be killed."""

    def __init__(self, folder: Path) -> None:
        self.workdir = folder / "work"
        self.manifest = folder / "job.yaml"
        self.manifest.write_text(yaml.safe_dump(MANIFEST))

    @contextmanager
    def run(self) -> Iterator[subprocess.Popen[str]]:
        """`imagenetctl run`, killed at the latest when the block is left."""
        program = Path(sys.executable).parent / "imagenetctl"
        options = ["--workdir", str(self.workdir), "--output", "json"]
        with subprocess.Popen(
            [program, "run", self.manifest, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def wait_for_checkpoint(self, attempt: int) -> None:
        """Wait until an attempt has written a checkpoint of its own."""
        pattern = f"volumes/killed-dataset/jobs/*/attempts/r{attempt}/checkpoints/epoch-*"
        wait_until(lambda: any(self.workdir.glob(pattern)), f"a checkpoint of attempt {attempt}")

    def left(self) -> list[int]:
        return processes_with(f"{self.workdir}/jobs")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    wait_until(lambda: not place.left(), "every process has gone")


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The result of a run that must succeed, with what the training wrote of itself."""
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    written = json.loads((Path(result["model"]["folder"]) / "result.json").read_text())
    return {**result, "written": written}


def test_a_gang_survives_the_loss_of_any_member(place: Place) -> None:
    """One member of each role in turn, each after its attempt has got somewhere."""
    with place.run() as process:
        for attempt, role in enumerate(("worker", "server", "scheduler")):
            place.wait_for_checkpoint(attempt)
            os.kill(program_of(f"killed-r{attempt}-{role}-0", place.workdir), signal.SIGKILL)

        result = finished(process)

    assert result["restarts"] == 3
    assert result["disruptions"] == 0
    assert result["attempt"] == 3
    assert "/attempts/r2/checkpoints/" in result["written"]["resumedFrom"]
    assert result["written"]["epochs"] == EPOCHS
    assert result["validation"]["images"] == 80


def test_a_killed_run_goes_on_from_its_checkpoint(place: Place) -> None:
    with place.run() as process:
        place.wait_for_checkpoint(0)
        process.kill()

    with place.run() as process:
        result = finished(process)

    assert (result["restarts"], result["disruptions"], result["attempt"]) == (0, 1, 1)
    assert "/attempts/r0/checkpoints/" in result["written"]["resumedFrom"]
    assert result["dataset"]["folder"].startswith(str(place.workdir))

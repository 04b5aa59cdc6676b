"""Each way to share the work, on real nodes, from an archive of images to a model.

In those with their own rendezvous, a worker is killed; the stories of
test_members.py have a parameter server's members killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest

from imagenet_spec import metrics
from kind.cluster import Cluster
from kind.stories.jobs import AT_CHECKPOINT, VALIDATED, Manifest, from_archive, trained
from kind.stories.namespace import StoryNamespace, is_ready

EPOCHS = 3
ASK = """
import os, urllib.request
address = os.environ["POD_IP"] + ":" + os.environ["IMAGENET_METRICS_PORT"]
print(urllib.request.urlopen("http://" + address + "/metrics", timeout=60).read().decode())
"""


@dataclass(frozen=True)
class Case:
    """A strategy, and the framework that trains by it."""

    strategy: Manifest
    framework: str = "MXNet"
    format: str = "RecordIO"
    workers: int = 2
    is_killed: bool = False


def tensorflow(strategy: Manifest, workers: int = 2, is_killed: bool = False) -> Case:
    """A strategy by which TensorFlow trains."""
    return Case(strategy, "TensorFlow", "TFRecord", workers, is_killed)


CASES = {
    "parameter server": Case({"parameterServer": {"kvStore": "dist_device_sync"}}),
    "single": Case({"single": {}}, workers=1),
    "horovod": Case({"horovod": {"slotsPerWorker": 2}}, is_killed=True),
    "tensorflow horovod": tensorflow({"horovod": {"slotsPerWorker": 1}}),
    "multi-worker mirrored": tensorflow({"multiWorkerMirrored": {}}, is_killed=True),
    "mirrored": tensorflow({"mirrored": {}}, workers=1),
    "distributed data parallel": Case(
        {"distributedDataParallel": {}}, "PyTorch", "TFRecord", is_killed=True
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_digits_are_learned(story: StoryNamespace, cluster: Cluster, case: Case) -> None:
    story.make_archive()
    story.kubectl.apply(
        trained(
            epochs=EPOCHS,
            strategy=case.strategy,
            workers={"replicas": case.workers},
            dataset=from_archive(format=case.format),
            training={"framework": case.framework},
            hold_at={"worker@0": AT_CHECKPOINT.format(2)},
            # A program that is held ignores SIGTERM.
            template={"terminationGracePeriodSeconds": 1},
        )
    )
    # Held before the second checkpoint, and so after the evaluation that follows the first.
    writer = story.wait_until_held("worker")
    others = ("server", "scheduler") if "parameterServer" in case.strategy else ()
    ready = {writer, *(f"story-r0-{role}-0" for role in others)}
    story.kubectl.wait_until("pods", lambda pods: all(is_ready(pods[name]) for name in ready))
    assert exported(story, writer) >= expected(case)
    if case.is_killed:
        cluster.kill_program(story.kubectl.get("pods", writer))
    else:
        story.release()

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (int(case.is_killed), 0)
    assert status["training"]["accuracy"]["validation"] > 0.5
    # Of both tolerances, the larger one holds.
    wall_time = pytest.approx(seconds_of(story.job()), rel=0.01, abs=2)
    assert sum(status["time"]["phases"].values()) == wall_time
    assert len(story.workers_by_ledger()) == 1 + case.is_killed
    written = story.result(status)
    assert written["epochs"] == EPOCHS
    assert written["validation"]["images"] == VALIDATED
    if case.is_killed:
        assert "/attempts/r0/checkpoints/epoch-0001" in written["resumedFrom"]


def expected(case: Case) -> set[str]:
    """The names of the metrics that each worker of a case exports."""
    # One worker has nobody to exchange gradients with.
    left_out = () if case.workers > 1 else (metrics.TRAIN_BEFORE_EXCHANGE, metrics.TRAIN_EXCHANGES)
    return {metric.name for metric in metrics.TRAINING if metric not in left_out}


def seconds_of(job: Manifest) -> float:
    """The seconds from the creation of a job to its end."""
    created, ended = job["metadata"]["creationTimestamp"], job["status"]["completionTime"]
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(created)).total_seconds()


def exported(story: StoryNamespace, pod: str) -> set[str]:
    """The names of the metrics that a pod exports; a policy may keep others than itself away."""
    lines = story.run_in(pod, f"python -c '{ASK}'").splitlines()
    return {line.split()[2] for line in lines if line.startswith("# TYPE")}

"""Each way to share the work, on real nodes: a worker is killed in it, and it comes to its end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from imagenet_workloads.telemetry import names
from kind.cluster import Cluster
from kind.stories.jobs import AT_CHECKPOINT, VALIDATED, Manifest, from_archive, trained
from kind.stories.place import Place


@dataclass(frozen=True)
class Case:
    """A strategy, and the framework that trains by it."""

    strategy: Manifest
    framework: str = "MXNet"
    format: str = "RecordIO"
    workers: int = 2


def tensorflow(strategy: Manifest, workers: int = 2) -> Case:
    """A strategy by which TensorFlow trains."""
    return Case(strategy, "TensorFlow", "TFRecord", workers)


CASES = {
    "parameter server": Case({"parameterServer": {"kvStore": "dist_device_sync"}}),
    "single": Case({"single": {}}, workers=1),
    "horovod": Case({"horovod": {"slotsPerWorker": 1}}),
    "tensorflow horovod": tensorflow({"horovod": {"slotsPerWorker": 2}}),
    "multi-worker mirrored": tensorflow({"multiWorkerMirrored": {}}),
    "mirrored": tensorflow({"mirrored": {}}, workers=1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_worker_is_killed_and_the_training_comes_to_its_end(
    place: Place, cluster: Cluster, case: Case
) -> None:
    place.make_archive()
    place.kubectl.apply(
        trained(
            epochs=3,
            strategy=case.strategy,
            workers={"replicas": case.workers},
            dataset=from_archive(format=case.format),
            training={"framework": case.framework},
            hold_at={"worker@0": AT_CHECKPOINT.format(2)},
            # Who is held does not hear that it should end.
            template={"terminationGracePeriodSeconds": 1},
        )
    )
    # Held before the second checkpoint, and so after the evaluation that follows the first.
    writer = place.wait_until_held("worker")
    assert exported(place, writer) >= {metric.name for metric in names.TRAINING}

    cluster.kill_program(place.kubectl.get("pod", writer))

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)
    assert status["training"]["accuracy"]["validation"] > 0.5
    written = place.result(status)
    assert "/attempts/r0/checkpoints/epoch-0001" in written["resumedFrom"]
    assert written["validation"]["images"] == VALIDATED


def exported(place: Place, pod: str) -> set[str]:
    """The names of the metrics that a pod exports."""
    path = f"/api/v1/namespaces/{place.name}/pods/{pod}:9090/proxy/metrics"
    lines = place.kubectl("get", "--raw", path).splitlines()
    return {line.split()[2] for line in lines if line.startswith("# TYPE")}

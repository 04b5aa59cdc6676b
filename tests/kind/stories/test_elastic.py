"""An elastic job shrinks when a node goes, and grows from a checkpoint when it is back."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kind.cluster import Cluster
from kind.stories.jobs import AT_CHECKPOINT, Manifest, from_archive, trained
from kind.stories.namespace import OF_JOB, ROLE, StoryNamespace

EPOCHS = 8
# Two such workers do not fit on a node of two cores.
CPU = "1200m"

STRATEGIES = [
    pytest.param("MXNet", {"parameterServer": {"kvStore": "dist_sync"}}, id="parameter server"),
    pytest.param("PyTorch", {"distributedDataParallel": {}}, id="distributed data parallel"),
    *(
        pytest.param(framework, strategy, id=name, marks=pytest.mark.long)
        for name, framework, strategy in (
            ("horovod", "MXNet", {"horovod": {"slotsPerWorker": 1}}),
            ("tensorflow horovod", "TensorFlow", {"horovod": {"slotsPerWorker": 1}}),
            ("multi-worker mirrored", "TensorFlow", {"multiWorkerMirrored": {}}),
        )
    ),
]
"""The framework and the strategy of each job."""


def elastic(framework: str, strategy: Manifest) -> Manifest:
    """A job of two workers that goes on with one, held in attempts 0 and 1."""
    job = trained(
        epochs=EPOCHS,
        strategy=strategy,
        workers={"minReplicas": 1, "elastic": {"waitSeconds": 60}},
        dataset=from_archive(format="TFRecord" if framework == "TensorFlow" else "RecordIO"),
        training={"framework": framework},
        hold_at={"worker@0": AT_CHECKPOINT.format(2), "worker@1": AT_CHECKPOINT.format(4)},
        # A program that is held ignores SIGTERM.
        template={"terminationGracePeriodSeconds": 20},
    )
    (container,) = job["spec"]["training"]["workers"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": CPU}}
    return job


@pytest.mark.parametrize(("framework", "strategy"), STRATEGIES)
def test_a_job_shrinks_and_grows(
    story: StoryNamespace,
    cluster: Cluster,
    cordon: Callable[[str], None],
    framework: str,
    strategy: Manifest,
) -> None:
    story.make_archive()
    story.kubectl.apply(elastic(framework, strategy))
    writer = story.wait_until_held("worker")
    assert workers(story.wait_for_attempt(0)) == 2

    node = story.kubectl.get("pods", writer)["spec"]["nodeName"]
    cordon(node)
    story.kill_pod(writer)
    story.wait_until_held("worker", attempt=1)
    assert workers(story.wait_for_attempt(1)) == 1
    cluster.kubectl("uncordon", node)
    wait_for_sigterm(story)
    story.release("worker")

    status = story.wait_for_condition("Succeeded")
    assert workers(status) == 2
    assert status["training"]["attempt"] == 2
    assert (status["restarts"], status["disruptions"]) == (0, 1)
    story.kubectl.wait_until(
        "events",
        lambda events: {"Shrunk", "Growing", "Grown"} <= {one["reason"] for one in events.values()},
    )
    # Training goes on, to the next epoch's end at most, while a checkpoint has no name.
    resumed = story.result(status)["resumedFrom"]
    assert re.search("/attempts/r1/checkpoints/epoch-000[45]-", resumed)
    assert story.workers_by_ledger() == [2, 1, 2]


def workers(status: Manifest) -> int:
    """The number of workers of the current attempt."""
    return int(status["training"]["workers"])


def wait_for_sigterm(story: StoryNamespace) -> None:
    """Wait until every worker is asked to end."""

    def signalled(pods: dict[str, Manifest]) -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in pods.values())

    story.kubectl.wait_until("pods", signalled, selector=f"{OF_JOB},{ROLE}=worker")

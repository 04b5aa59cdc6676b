"""Gangs on nodes with GPUs: all members get theirs, or none keeps one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kind.cluster import Cluster
from kind.conftest import GPUS
from kind.stories.jobs import IMAGE, Manifest, played
from kind.stories.namespace import OF_JOB, StoryNamespace, member_nodes

EACH = 4
"""GPUs of each node, and of each worker."""


@pytest.fixture
def gpu_nodes(cluster: Cluster, advertise_gpus: Callable[[str, int], None]) -> list[str]:
    """The nodes, with their GPUs."""
    for node in cluster.workers:
        advertise_gpus(node, EACH)
    return cluster.workers


@pytest.fixture
def kept_for_gpus(cluster: Cluster, gpu_nodes: list[str]) -> Iterator[str]:
    """The first of the nodes, closed to what does not tolerate GPUs, as clouds' pools are."""
    node = gpu_nodes[0]
    cluster.kubectl("taint", "node", node, f"{GPUS}=present:NoSchedule", "--overwrite")
    yield node
    cluster.kubectl("taint", "node", node, f"{GPUS}:NoSchedule-")


def on_gpus(
    name: str,
    *,
    workers: int = 2,
    gang: str = "Timeout",
    timeout: int = 600,
    behaviour: dict[str, str] | None = None,
    tolerations: list[Manifest] | None = None,
) -> Manifest:
    """A job whose workers take a node's GPUs each; the tolerations are theirs alone."""
    policy = {"schedulingPolicy": {"gang": gang, "scheduleTimeoutSeconds": timeout}}
    job = played(
        name,
        prepared=True,
        behaviour=behaviour,
        workers={"replicas": workers, "gpus": EACH},
        # The image for GPUs has no place here; what plays needs none.
        training={"image": IMAGE},
        run_policy=policy,
    )
    if tolerations is not None:
        job["spec"]["training"]["workers"]["template"]["spec"]["tolerations"] = tolerations
    return job


def test_workers_get_their_gpus(story: StoryNamespace, gpu_nodes: list[str]) -> None:
    story.kubectl.apply(on_gpus("story", behaviour={"worker": "hold"}))
    story.wait_for_attempt(0)
    # Servers go as soon as the workers have ended.
    limits = {
        pod["metadata"]["name"]: pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
        for pod in story.pods()
    }
    story.release()

    status = story.wait_for_condition("Succeeded")

    nodes = member_nodes(status)
    assert {nodes["worker-0"], nodes["worker-1"]} == set(gpu_nodes)
    assert limits["story-r0-worker-0"] == limits["story-r0-worker-1"] == {GPUS: str(EACH)}
    assert not limits["story-r0-server-0"]


def test_a_gang_that_waits_holds_nothing(
    story: StoryNamespace, kept_for_gpus: str, advertise_gpus: Callable[[str, int], None]
) -> None:
    tolerant: Manifest = {"key": GPUS, "operator": "Exists", "effect": "NoSchedule"}
    story.kubectl.apply(on_gpus("large", workers=3, gang="Wait", tolerations=[tolerant]))
    story.kubectl.wait_until("pods", lambda pods: len(pods) == 5, selector=f"{OF_JOB}=large")

    # It takes both nodes, one of which only its workers may use.
    story.kubectl.apply(on_gpus("small", gang="Wait", tolerations=[tolerant]))
    small = story.wait_for_condition("Succeeded", "small")

    workers = {node for name, node in member_nodes(small).items() if name.startswith("worker")}
    assert kept_for_gpus in workers
    assert len(workers) == 2
    waiting = story.pods(job="large")
    assert len(waiting) == 5
    assert not any("nodeName" in pod["spec"] for pod in waiting)
    assert all(pod["spec"]["schedulingGates"] for pod in waiting)
    story.wait_for_job(is_told_what_it_lacks, "large")

    advertise_gpus(kept_for_gpus, 2 * EACH)
    status = story.wait_for_condition("Succeeded", "large")
    assert (status["restarts"], status["disruptions"], status["training"]["attempt"]) == (0, 0, 0)


def is_told_what_it_lacks(status: Manifest) -> bool:
    """Whether the status says for which of the large gang's members there is no room, and why."""
    messages = {item["type"]: item["message"] for item in status.get("conditions", ())}
    message = messages.get("Running", "")
    return (
        "0 of 3 nodes have room for large-r0-worker-" in message
        and f"with less than {EACH} {GPUS} free" in message
    )


def test_two_gangs_that_do_not_fit_together_both_finish(
    story: StoryNamespace, gpu_nodes: list[str]
) -> None:
    held = {"worker": "hold"}
    story.kubectl.apply(
        *(on_gpus(name, timeout=15, behaviour=held) for name in ("first", "second"))
    )

    def one_runs_and_one_was_withdrawn(jobs: dict[str, Manifest]) -> bool:
        trainings = [job.get("status", {}).get("training") or {} for job in jobs.values()]
        return any("runningTime" in training for training in trainings) and any(
            training.get("outcome", {}).get("reason") == "GangTimedOut" for training in trainings
        )

    story.kubectl.wait_until("imagenetjobs", one_runs_and_one_was_withdrawn)
    story.release()

    for name in ("first", "second"):
        status = story.wait_for_condition("Succeeded", name)
        assert (status["restarts"], status["disruptions"]) == (0, 0)

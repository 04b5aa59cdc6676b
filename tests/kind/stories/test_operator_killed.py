"""The operator dies at any moment: jobs go on without it, and it, or a second one, catches up."""

from __future__ import annotations

from kind.cluster import Cluster
from kind.stories.deployment import Operator
from kind.stories.jobs import played
from kind.stories.namespace import StoryNamespace

PODS = {"index": 1, "pack": 2, "seal": 1, "worker": 2}
"""How many pods of each role a job has that is left alone."""


def test_a_job_goes_on_while_the_operator_is_dead(
    story: StoryNamespace, operator: Operator
) -> None:
    story.kubectl.apply(played(behaviour=dict.fromkeys(PODS, "hold")))
    seen: dict[str, set[str]] = {}
    for role, count in PODS.items():
        story.wait_for_running_pods(role, count)
        seen[role] = uids(story, role)

        operator.kill()
        story.release(role)
        operator.wait_until_ready()

    status = story.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["training"]["attempt"] == 0
    assert {role: uids(story, role) for role in PODS} == seen


def test_the_operator_dies_between_two_attempts(story: StoryNamespace, operator: Operator) -> None:
    story.kubectl.apply(played(prepared=True, behaviour={"worker@0": "exit 1"}))
    story.wait_for_condition("Restarting")

    operator.kill()

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)


def test_the_operator_dies_while_a_job_is_suspended(
    story: StoryNamespace, operator: Operator
) -> None:
    story.kubectl.apply(played(prepared=True, run_policy={"suspend": True}))
    story.wait_for_condition("Suspended")

    operator.kill()
    story.change({"runPolicy": {"suspend": False}})

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)


def test_the_operator_dies_while_a_gang_waits(
    story: StoryNamespace, operator: Operator, cluster: Cluster
) -> None:
    story.kubectl.apply(played(prepared=True, template={"nodeSelector": {"story": story.name}}))
    story.wait_for_job(lambda status: status.get("phase") == "Starting")

    operator.kill()
    cluster.kubectl("label", "node", cluster.workers[0], f"story={story.name}")

    status = story.wait_for_condition("Succeeded")
    cluster.kubectl("label", "node", cluster.workers[0], "story-")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["training"]["attempt"] == 0


def test_two_operators_do_what_one_does(story: StoryNamespace, operator: Operator) -> None:
    operator.start(replicas=2)

    story.kubectl.apply(played(behaviour={"worker": "hold"}))
    story.wait_for_attempt(0)
    seen = {role: uids(story, role) for role in PODS}
    story.release()
    status = story.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert {role: len(found) for role, found in seen.items()} == PODS
    assert {role: uids(story, role) for role in PODS} == seen


def uids(story: StoryNamespace, role: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in story.pods(role=role)}

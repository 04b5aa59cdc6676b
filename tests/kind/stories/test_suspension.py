"""A job that is suspended frees its nodes at once, and goes on where it was."""

from __future__ import annotations

import re

from kind.stories.jobs import AT_CHECKPOINT, Manifest, played, trained
from kind.stories.namespace import OF_JOB, ROLE, StoryNamespace, condition, terminated

TERMINATED = 128 + 15


def test_a_training_is_suspended_and_resumed_with_fewer_workers(
    digits_story: StoryNamespace,
) -> None:
    story = digits_story
    story.kubectl.apply(trained(epochs=8, hold_at={"worker@0": AT_CHECKPOINT.format(2)}))
    story.wait_until_held("worker")

    story.change({"runPolicy": {"suspend": True}})
    wait_for_sigterm(story)
    story.release("worker")
    wait_for_all_to_leave(story)
    story.wait_for_condition("Suspended")

    story.change({"training": {"workers": {"replicas": 1}}, "runPolicy": {"suspend": False}})

    status = story.wait_for_condition("Succeeded")
    assert condition(status, "Suspended") is None
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    written = story.result(status)
    assert written["workers"] == 1
    # Training goes on, to the next epoch's end at most, while a checkpoint has no name.
    assert re.search("/attempts/r0/checkpoints/epoch-000[23]-", written["resumedFrom"])


def wait_for_sigterm(story: StoryNamespace) -> None:
    """Wait until every pod is asked to end."""

    def signalled(pods: dict[str, Manifest]) -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in pods.values())

    story.kubectl.wait_until("pods", signalled, selector=OF_JOB)


def wait_for_all_to_leave(story: StoryNamespace) -> None:
    """Wait until no pod is there, and see that each has gone by itself."""
    left = story.wait_until_gone(OF_JOB)
    # Who was killed after its grace has another code.
    codes = {name: terminated(pod)["exitCode"] for name, pod in left.items()}
    assert codes == dict.fromkeys(codes, TERMINATED)


def have_failed(pods: dict[str, Manifest]) -> bool:
    """Whether no pod is left that could still work."""
    return all(pod["status"]["phase"] == "Failed" for pod in pods.values())


def test_a_preparation_is_suspended_and_resumed(story: StoryNamespace) -> None:
    story.kubectl.apply(played(behaviour={"pack": "hold"}))
    story.wait_for_running_pods("pack", 2)

    story.change({"runPolicy": {"suspend": True}})
    story.wait_for_condition("Suspended")
    story.kubectl.wait_until("pods", have_failed, selector=f"{OF_JOB}=story,{ROLE}=pack")
    story.release()
    story.change({"runPolicy": {"suspend": False}})

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)

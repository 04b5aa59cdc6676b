"""A job that is suspended frees its nodes at once, and goes on where it was."""

from __future__ import annotations

import json

from kind.stories.jobs import played, trained
from kind.stories.place import OF_JOB, Place, Stopwatch, condition

TEARDOWN_SECONDS = 5


def test_a_training_is_suspended_and_resumed_with_fewer_workers(digits_place: Place) -> None:
    place = digits_place
    place.kubectl.apply(trained(epochs=8))
    place.wait_for_checkpoint(0)

    change(place, {"runPolicy": {"suspend": True}})
    since = Stopwatch()
    place.kubectl.wait_until("pods", lambda pods: not pods, selector=OF_JOB)
    assert since.seconds < TEARDOWN_SECONDS
    place.wait_for_condition("Suspended")

    change(place, {"training": {"workers": {"replicas": 1}}, "runPolicy": {"suspend": False}})

    status = place.wait_for_condition("Succeeded")
    assert condition(status, "Suspended") is None
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    written = place.result(status)
    assert written["workers"] == 1
    assert "/attempts/r0/checkpoints/" in written["resumedFrom"]


def test_a_preparation_is_suspended_and_resumed(place: Place) -> None:
    place.kubectl.apply(played(behaviour={"pack": "hold"}))
    place.wait_for_running_pods("pack", 2)

    change(place, {"runPolicy": {"suspend": True}})
    place.wait_for_condition("Suspended")
    assert {pod["status"]["phase"] for pod in place.pods(role="pack")} <= {"Failed"}
    place.release()
    change(place, {"runPolicy": {"suspend": False}})

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)


def change(place: Place, spec: object) -> None:
    patch = json.dumps({"spec": spec})
    place.kubectl("patch", "imagenetjob", "story", "--type=merge", f"--patch={patch}")

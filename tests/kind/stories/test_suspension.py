"""A job that is suspended frees its nodes at once, and goes on where it was."""

from __future__ import annotations

from kind.stories.jobs import AT_CHECKPOINT, Manifest, played, trained
from kind.stories.place import OF_JOB, ROLE, Place, condition, terminated

TERMINATED = 128 + 15


def test_a_training_is_suspended_and_resumed_with_fewer_workers(digits_place: Place) -> None:
    place = digits_place
    place.kubectl.apply(trained(epochs=3, hold_at={"worker@0": AT_CHECKPOINT.format(2)}))
    place.wait_until_held("worker")

    place.change({"runPolicy": {"suspend": True}})
    wait_for_all_to_be_told(place)
    place.release("worker")
    wait_for_all_to_leave(place)
    place.wait_for_condition("Suspended")

    place.change({"training": {"workers": {"replicas": 1}}, "runPolicy": {"suspend": False}})

    status = place.wait_for_condition("Succeeded")
    assert condition(status, "Suspended") is None
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    written = place.result(status)
    assert written["workers"] == 1
    assert "/attempts/r0/checkpoints/epoch-0002" in written["resumedFrom"]


def wait_for_all_to_be_told(place: Place) -> None:
    """Wait until every pod is asked to end."""

    def told(pods: dict[str, Manifest]) -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in pods.values())

    place.kubectl.wait_until("pods", told, selector=OF_JOB)


def wait_for_all_to_leave(place: Place) -> None:
    """Wait until no pod is there, and see that each has gone by itself."""
    left = place.wait_until_gone(OF_JOB)
    # Who was killed after its grace has another code.
    codes = {name: terminated(pod)["exitCode"] for name, pod in left.items()}
    assert codes == dict.fromkeys(codes, TERMINATED)


def have_failed(pods: dict[str, Manifest]) -> bool:
    """Whether no pod is left that could still work."""
    return all(pod["status"]["phase"] == "Failed" for pod in pods.values())


def test_a_preparation_is_suspended_and_resumed(place: Place) -> None:
    place.kubectl.apply(played(behaviour={"pack": "hold"}))
    place.wait_for_running_pods("pack", 2)

    place.change({"runPolicy": {"suspend": True}})
    place.wait_for_condition("Suspended")
    place.kubectl.wait_until("pods", have_failed, selector=f"{OF_JOB}=story,{ROLE}=pack")
    place.release()
    place.change({"runPolicy": {"suspend": False}})

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)

"""Members of an attempt that die, hang, or leave at the end."""

from __future__ import annotations

import pytest

from kind.stories.jobs import AT_CHECKPOINT, VALIDATED, Manifest, played, trained
from kind.stories.place import Operator, Place

EPOCHS = 3


def halfway() -> Manifest:
    """A job that is held in training: its first checkpoint is there, and the next is not."""
    # Who is held does not hear that it should end.
    brief = {"terminationGracePeriodSeconds": 1}
    return trained(epochs=EPOCHS, hold_at={"worker@0": AT_CHECKPOINT.format(2)}, template=brief)


@pytest.mark.parametrize("role", ["worker", "server", "scheduler"])
def test_a_member_killed_in_training_costs_one_restart(digits_place: Place, role: str) -> None:
    place = digits_place
    place.kubectl.apply(halfway())
    place.wait_until_held("worker")

    place.kill_program(f"story-r0-{role}-0")

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)
    assert status["training"]["attempt"] == 1
    written = place.result(status)
    assert "/attempts/r0/checkpoints/epoch-0001" in written["resumedFrom"]
    assert written["epochs"] == EPOCHS
    assert written["validation"]["images"] == VALIDATED


def test_a_pod_that_is_deleted_costs_no_restart_of_the_job_s_own(digits_place: Place) -> None:
    place = digits_place
    place.kubectl.apply(halfway())
    place.wait_until_held("worker")

    place.kill_pod("story-r0-server-0")

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 1)
    assert "/attempts/r0/checkpoints/epoch-0001" in place.result(status)["resumedFrom"]


@pytest.mark.parametrize("role", ["worker", "server", "scheduler"])
def test_a_member_killed_after_the_last_checkpoint(digits_place: Place, role: str) -> None:
    """The worker that writes the result is held before it: all epochs are trained, and saved."""
    place = digits_place
    place.kubectl.apply(trained(epochs=2, hold_at={"worker@0": r"/result\.json$"}))
    writer = place.wait_until_held("worker")

    place.kill_program(writer if role == "worker" else f"story-r0-{role}-0")

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)
    written = place.result(status)
    assert written["resumedFrom"].endswith("/attempts/r0/checkpoints/epoch-0002-batch-00000000")
    assert written["train"]["images"] == 0
    assert written["validation"]["images"] == VALIDATED


def test_servers_that_die_after_the_last_worker_cost_nothing(
    place: Place, operator: Operator
) -> None:
    place.kubectl.apply(played(prepared=True, behaviour={"worker": "hold"}))
    place.wait_for_attempt(0)
    operator.stop()  # it must not be faster than what dies
    place.release()
    place.kubectl.wait(
        "pod/story-r0-worker-0 pod/story-r0-worker-1", "jsonpath={.status.phase}=Succeeded"
    )

    for role in ("server", "scheduler"):
        place.end_stand_in(f"story-r0-{role}-0")
        place.kubectl.wait(f"pod/story-r0-{role}-0", "jsonpath={.status.phase}=Failed")
    operator.start()

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["training"]["attempt"] == 0


def test_a_hang_is_caught_by_the_progress_deadline(digits_place: Place) -> None:
    place = digits_place
    place.kubectl.apply(halfway())
    writer = place.wait_until_held("worker")
    (other,) = {"story-r0-worker-0", "story-r0-worker-1"} - {writer}
    place.kill_program(other, "STOP")
    place.release("worker")

    # Not before: however slow this machine is, what only starts must not be taken for a hang.
    place.change({"runPolicy": {"progressDeadlineSeconds": 20}})
    place.wait_for_condition("Restarting", reason="ProgressDeadlineExceeded")
    place.change({"runPolicy": {"progressDeadlineSeconds": 3600}})

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)
    assert "/attempts/r0/checkpoints/" in place.result(status)["resumedFrom"]

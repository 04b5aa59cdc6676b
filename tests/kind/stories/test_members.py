"""Members of an attempt that die, hang, or leave at the end."""

from __future__ import annotations

from kind.stories.jobs import AT_CHECKPOINT, VALIDATED, Manifest, played, trained
from kind.stories.place import Operator, Place

EPOCHS = 3
ROLES = ("worker", "server", "scheduler")


def halfway(attempts: int) -> Manifest:
    """A job that is held in training: its first checkpoint is there, and the next is not.

    Args:
        attempts: How many are held, one after another.
    """
    at = {f"worker@{attempt}": AT_CHECKPOINT.format(2) for attempt in range(attempts)}
    # Who is held does not hear that it should end.
    return trained(epochs=EPOCHS, hold_at=at, template={"terminationGracePeriodSeconds": 1})


def test_members_killed_in_training_cost_a_restart_each(digits_place: Place) -> None:
    place = digits_place
    place.kubectl.apply(halfway(len(ROLES) + 1))
    for attempt, role in enumerate(ROLES):
        place.wait_until_held("worker", attempt=attempt)
        place.kill_program(f"story-r{attempt}-{role}-0")

    # A pod that somebody deletes is no fault of the job's own.
    place.wait_until_held("worker", attempt=len(ROLES))
    place.kill_pod(f"story-r{len(ROLES)}-server-0")

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (len(ROLES), 1)
    assert status["training"]["attempt"] == len(ROLES) + 1
    written = place.result(status)
    assert "/attempts/r0/checkpoints/epoch-0001" in written["resumedFrom"]
    assert written["epochs"] == EPOCHS
    assert written["validation"]["images"] == VALIDATED


def test_members_killed_after_the_last_checkpoint_cost_no_training(digits_place: Place) -> None:
    """The worker that writes the result is held before it: all epochs are trained, and saved."""
    place = digits_place
    at = {f"worker@{attempt}": r"/result\.json$" for attempt in range(len(ROLES))}
    place.kubectl.apply(trained(epochs=2, hold_at=at))
    for attempt, role in enumerate(ROLES):
        writer = place.wait_until_held("worker", attempt=attempt)
        place.kill_program(writer if role == "worker" else f"story-r{attempt}-{role}-0")

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (len(ROLES), 0)
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
    for index in range(2):
        place.wait_for_phase(f"story-r0-worker-{index}", "Succeeded")

    for role in ("server", "scheduler"):
        place.end_stand_in(f"story-r0-{role}-0")
        place.wait_for_phase(f"story-r0-{role}-0", "Failed")
    operator.start()

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["training"]["attempt"] == 0


def test_a_hang_is_caught_by_the_progress_deadline(digits_place: Place) -> None:
    place = digits_place
    place.kubectl.apply(halfway(1))
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

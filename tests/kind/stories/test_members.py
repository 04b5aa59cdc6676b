"""Members of an attempt that die, hang, or leave at the end."""

from __future__ import annotations

import pytest

from kind.stories.jobs import played, trained
from kind.stories.place import Operator, Place, Stopwatch

EPOCHS = 8

# What is stopped does not hear that it should end.
BRIEF = {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}
LAST = f"epoch-{EPOCHS:04}-batch-00000000"


@pytest.mark.parametrize("role", ["worker", "server", "scheduler"])
def test_a_member_killed_in_training_costs_one_restart(digits_place: Place, role: str) -> None:
    place = digits_place
    place.kubectl.apply(trained(epochs=EPOCHS))
    place.wait_for_checkpoint(0)

    place.kill_program(f"story-r0-{role}-0")

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)
    assert status["training"]["attempt"] == 1
    written = place.result(status)
    assert "/attempts/r0/checkpoints/" in written["resumedFrom"]
    assert written["epochs"] == EPOCHS
    assert written["validation"]["images"] == 1197


def test_a_pod_that_is_deleted_costs_no_restart_of_the_job_s_own(digits_place: Place) -> None:
    place = digits_place
    place.kubectl.apply(trained(epochs=EPOCHS))
    place.wait_for_checkpoint(0)

    place.kill_pod("story-r0-server-0")

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 1)
    assert "/attempts/r0/checkpoints/" in place.result(status)["resumedFrom"]


@pytest.mark.parametrize("role", ["worker", "server", "scheduler"])
def test_a_member_killed_after_the_last_checkpoint(digits_place: Place, role: str) -> None:
    """The worker that has just written the last checkpoint is held, before it can say so."""
    place = digits_place
    place.kubectl.apply(trained(epochs=EPOCHS, workers=BRIEF))
    place.wait_for_checkpoint(0)
    workers = ("story-r0-worker-0", "story-r0-worker-1")
    writer = next(name for name in workers if is_first(place, name))
    checkpoint = f"/data/jobs/*/attempts/r0/checkpoints/{LAST}"
    hold = "kill -STOP $(cat /proc/1/task/1/children)"
    place.run_in(writer, f"until ls -d {checkpoint} 2>/dev/null; do sleep 0.01; done; {hold}")
    assert not list(place.output().glob("attempts/r0/result.json")), "it was faster than the hold"

    place.kill_program(writer if role == "worker" else f"story-r0-{role}-0")

    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)
    written = place.result(status)
    assert written["resumedFrom"].endswith(f"/attempts/r0/checkpoints/{LAST}")
    assert written["train"]["images"] == 0
    assert written["validation"]["images"] == 1197


def is_first(place: Place, pod: str) -> bool:
    """Whether a worker is of rank 0, which is not its pod's number."""
    return "rank 0 of" in place.kubectl("logs", pod)


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
    place.kubectl.apply(
        trained(epochs=EPOCHS, workers=BRIEF, run_policy={"progressDeadlineSeconds": 20})
    )
    place.wait_for_checkpoint(0)
    since = Stopwatch()

    place.kill_program("story-r0-worker-1", "STOP")

    place.wait_for_condition("Restarting", reason="ProgressDeadlineExceeded")
    assert since.seconds >= 15
    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)
    assert "/attempts/r0/checkpoints/" in place.result(status)["resumedFrom"]
